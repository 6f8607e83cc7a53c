/** Sentences about states and times, for people. Times are ms since the epoch. */

import type { ListedNotification } from '../../../redis/notifications/notifications.js';
import type { WaitReason } from '../../../redis/owed/standing.js';
import type { Endpoint } from '../../../redis/records/endpoint.js';
import { type Html, html } from '../html.js';

/** Shows a moment by its distance from now. */
export function moment(atMs: number | undefined, nowMs = Date.now()): Html {
  if (atMs === undefined) return html`<span class="faint">never</span>`;
  const iso = new Date(atMs).toISOString();
  return html`<time datetime="${iso}" title="${iso.slice(0, 19).replace('T', ' ')} UTC">${distance(atMs, nowMs)}</time>`;
}

/** Shows how long a state has lasted. */
export function lasting(sinceMs: number, nowMs = Date.now()): Html {
  const iso = new Date(sinceMs).toISOString();
  return html`<time datetime="${iso}" title="since ${iso.slice(0, 19).replace('T', ' ')} UTC">${spanOf(Math.max(0, nowMs - sinceMs))}</time>`;
}

/** Shows a moment to the second, to compare it with a log. */
export function exactly(atMs: number): Html {
  const iso = new Date(atMs).toISOString();
  return html`<time datetime="${iso}">${iso.slice(0, 19).replace('T', ' ')}</time>`;
}

function distance(atMs: number, nowMs: number): string {
  const span = spanOf(Math.abs(atMs - nowMs));
  return atMs > nowMs ? `in ${span}` : `${span} ago`;
}

export function spanOf(ms: number): string {
  const seconds = Math.round(ms / 1000);
  if (seconds < 100) return `${seconds} s`;
  if (seconds < 5_400) return `${Math.round(seconds / 60)} min`;
  if (seconds < 129_600) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86_400)} days`;
}

export const count = (n: number, one: string, many = `${one}s`): string =>
  `${n.toLocaleString('en')} ${n === 1 ? one : many}`;

export const stateWords: Record<string, string> = {
  active: 'active',
  failing: 'failing',
  paused: 'paused',
  suspended: 'suspended',
  not_registered: 'no URL',
};

/** Says how much is owed, and when the next attempt is. */
export function owedSentence(health: Endpoint, isRegistered: boolean): Html {
  if (health.owed === 0)
    return html`Nothing is owed: every notification so far has been delivered or has ended.`;
  const since = health.oldestOwedAt !== undefined && html`, the oldest for ${lasting(health.oldestOwedAt)}`;
  return html`${count(health.owed, 'notification')} ${health.owed === 1 ? 'is' : 'are'} owed${since}. ${whenNext(health, isRegistered)}`;
}

function whenNext(health: Endpoint, isRegistered: boolean): Html {
  if (!isRegistered) return html`They are sent once a URL is registered.`;
  const next = health.nextAttemptAt;
  switch (health.state) {
    case 'paused':
      return health.held
        ? html`Nothing is sent while the account is disabled.`
        : html`Nothing is sent until your account manager ends the pause.`;
    case 'suspended':
      return html`Nothing is tried until you resume; what is owed is kept for 30 days.`;
    case 'failing':
      return html`One is tried ${next === undefined ? 'soon' : moment(next)}; when it succeeds, the others follow.`;
    case 'active':
      if (health.inFlight > 0) return html`${count(health.inFlight, 'attempt')} under way now.`;
      return html`The next attempt is ${next === undefined || next <= Date.now() ? 'due now' : moment(next)}.`;
  }
}

const waiting: Record<WaitReason, string> = {
  due: 'its turn comes now',
  in_flight: 'an attempt is under way',
  retry: 'it is tried again at its own time',
  failing: 'the endpoint is failing, and one notification at a time tries it',
  not_before: 'the endpoint asked to wait (Retry-After)',
  rate: 'its turn comes as fast as the rate of the site allows',
  full: 'its turn comes when an attempt under way ends',
  paused: 'deliveries are paused',
  suspended: 'the endpoint is suspended until you resume',
  no_registration: 'no URL is registered',
};

/** Says why a notification is in its state; empty if the name of the state says it all. */
export function stateSentence(n: ListedNotification): string {
  switch (n.state) {
    case 'waiting':
      return n.waitingReason === undefined ? '' : waiting[n.waitingReason];
    case 'superseded':
      return `a newer notification of this asset took its place: ${n.by ?? 'its record is gone'}`;
    case 'not_needed':
      return `another event brought the same segments first: ${n.by ?? 'its record is gone'}`;
    case 'failed':
      return n.reason === 'expired'
        ? 'it was owed for 30 days'
        : 'it failed for 5 days while others succeeded';
    default:
      return '';
  }
}
