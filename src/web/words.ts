/** Sentences about states and times, for people. Times are ms since the epoch. */
import { constants } from '../constants.js';
import { explainFailure } from '../outgoing/details.js';
import type { ListedNotification } from '../redis/notifications/notifications.js';
import { waits } from '../redis/owed/waitReasons.js';
import { type Endpoint, type StateChange, siteStateOf } from '../redis/records/endpoint.js';
import type { Registration } from '../redis/records/registrations.js';
import { type Html, html, type Piece } from './html.js';

export function fromNow(atMs: number | undefined): Html {
  if (atMs === undefined) return html`<span class="faint">never</span>`;
  return timeElement(atMs, distance(atMs));
}

/** Writes how far a moment is from now: `3 min ago`, `in 20 s`. */
export function distance(atMs: number): string {
  const awayMs = atMs - Date.now();
  const away = span(Math.max(1000, Math.abs(awayMs)));
  return awayMs > 0 ? `in ${away}` : `${away} ago`;
}

/** Shows a moment to the second, to compare it with a log. */
export const exactly = (atMs: number): Html => timeElement(atMs, inSeconds(atMs));

/** Shows the hour and minute of a moment, and the day if it is not today. */
function clock(atMs: number): Html {
  const today = inSeconds(Date.now()).slice(0, 11);
  return timeElement(atMs, inSeconds(atMs).slice(0, 16).replace(today, ''));
}

const inSeconds = (atMs: number): string => new Date(atMs).toISOString().slice(0, 19).replace('T', ' ');

const timeElement = (atMs: number, shown: string): Html =>
  html`<time datetime="${new Date(atMs).toISOString()}" title="${inSeconds(atMs)} UTC">${shown}</time>`;

/** Writes a span of time: `850 ms`, `42 s`, `17 min`, `5 h`, `3 days`. */
export function span(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 100_000) return `${Math.round(ms / 1000)} s`;
  if (ms < 5_400_000) return `${Math.round(ms / 60_000)} min`;
  if (ms < 129_600_000) return `${Math.round(ms / 3_600_000)} h`;
  return `${Math.round(ms / 86_400_000)} days`;
}

/** Names a number of things: `1 client`, `2,000 clients`. */
export const count = (n: number, one: string, many = `${one}s`): string =>
  `${n.toLocaleString('en')} ${n === 1 ? one : many}`;

export const badge = (state: string) => html`<span class="badge ${state}">${stateInWords(state)}</span>`;

export const stateInWords = (state: string): string =>
  state === 'not_registered' ? 'no URL' : state.replace('_', ' ');

export const stateField = (states: readonly string[], chosen: string | undefined): Html =>
  choiceField('state', 'State', states, chosen);

export const choiceField = (id: string, label: string, choices: readonly string[], chosen?: string): Html =>
  html`<div><label for="${id}">${label}</label><select id="${id}" name="${id}"><option value="">any</option>${choices.map((name) => html`<option value="${name}" ${name === chosen && html`selected`}>${stateInWords(name)}</option>`)}</select></div>`;

export interface Reader {
  /** The receiver's owner, at the beginning of a sentence. */
  whose: string;
  /** Whom the receiver's owner asks for what only an operator does. */
  contact: string;
  endPause: string;
  endAccountPause: string;
  /** Before advice for the receiver's owner. */
  tell: string;
  /** What a delivered notification came to, before the status. */
  gotIt: string;
  changedBy: Readonly<Record<StateChange['by'], string>>;
}

export const publisherAt = (contact: string): Reader => ({
  whose: 'Your',
  contact,
  endPause: `Ask ${contact} to end the pause. What waits is sent then.`,
  endAccountPause: `Ask ${contact} to end the pause. What waits is sent then.`,
  tell: '',
  gotIt: 'You did get it: your endpoint answered',
  changedBy: { service: '', publisher: ' (by you)', operator: ` (by ${contact})` },
});

export const operatorReader: Reader = {
  whose: 'Its',
  contact: 'us',
  endPause: 'Resume it to end the pause. What waits is sent then.',
  endAccountPause: 'Resume the customer to end the pause. What waits is sent then.',
  tell: 'Tell its engineers: ',
  gotIt: 'It was delivered: the endpoint answered',
  changedBy: { service: '', publisher: ' (by the publisher)', operator: ' (by an operator)' },
};

const failedInWords = ({ failed }: Endpoint): Html =>
  html`${count(failed, 'video has', 'videos have')} ${badge('failed')}`;

/** Says that notifications were given up, and how to recover them; nothing if none was. */
export function failedNotice(health: Endpoint, remedy: (sinceMs: number) => Piece): Piece {
  const { failed, failedSince } = health;
  if (failed === 0 || failedSince === undefined) return '';
  return html`<div class="notice bad"><p class="lead">${failedInWords(health)} since ${clock(failedSince)}: no further attempt is made for ${failed === 1 ? 'it' : 'them'}.</p>
${remedy(failedSince)}</div>`;
}

/**
 * Shows in the first line what is wrong now, and then what to do: `register` without a URL, `resume` to try now.
 * @param purpose.noun what waits: a video or a notice
 */
export function healthNotice(
  { health, registration, reader }: { health: Endpoint; registration?: Registration; reader: Reader },
  { noun, register, resume }: { noun: string; register: Piece; resume: Piece },
): Html {
  const { owed, lastChange, lastSuccessAt, nextAttemptAt: next } = health;
  const { does, advice: told } = explainFailure(lastFailure(health), reader.contact);
  const advice = told && `${reader.tell}${told}`;
  const state = siteStateOf(health, registration);
  const notice = (tone: 'good' | 'warn' | 'bad', says: Piece, advice?: Piece): Html =>
    html`<div class="notice ${tone}"><p class="lead">${badge(state)} ${says}</p>${advice && html`<p>${advice}</p>`}</div>`;
  const waiting = `${owed === 0 ? `No ${noun}` : count(owed, noun)} ${owed > 1 ? 'wait' : 'waits'}.`;
  const triedByNext = `We try again with the next ${noun}.`;
  const oneOfThem = owed === 1 ? 'it' : 'one of them';
  const since = (atMs: number | undefined) => atMs !== undefined && html` since ${clock(atMs)}`;
  const failing = (atMs: number | undefined) =>
    html`${reader.whose} server ${does}.${atMs !== undefined && html` Every attempt since ${clock(atMs)} has failed.`}`;
  switch (state) {
    case 'not_registered':
      return notice(
        'warn',
        html`No URL is registered, so nothing is sent.${health.state === 'paused' && ' The next one is paused.'}${owed > 0 && ` ${waiting}`}`,
        register,
      );
    case 'paused':
      return notice(
        'warn',
        html`Nothing has been sent${since(lastChange?.at)}, because ${health.accountPaused ? 'all deliveries of the account are paused' : health.held ? 'the account is disabled' : 'deliveries are paused'}. ${waiting}`,
        health.accountPaused
          ? reader.endAccountPause
          : health.held
            ? 'Only an admin can enable the account.'
            : reader.endPause,
      );
    case 'suspended':
      return notice(
        'bad',
        html`Nothing has been sent${since(lastChange?.at)}, because ${reader.whose.toLowerCase()} server ${health.lastStatus === 410 ? 'answered 410' : 'failed for too long'}. ${waiting}`,
        html`${advice} When it is repaired, ${resume}. What waits is kept.`,
      );
    case 'failing':
      return notice(
        'bad',
        html`${failing(health.firstFailureAt ?? health.lastFailureAt)} ${waiting} ${owed === 0 ? triedByNext : health.waitingReason === 'not_before' ? html`It asked us to wait (Retry-After): we try ${oneOfThem} ${soon(next)}.` : html`We try ${oneOfThem} at least every ${longestProbe}, next ${soon(next)}.`}`,
        html`${advice} ${owed > 1 && 'When one is accepted, the others follow.'} ${owed > 0 && html`To try ${oneOfThem} now, ${resume}.`}`,
      );
  }
  if (health.waitingReason === 'not_before') {
    const says = html`${reader.whose} server asked us to wait (Retry-After). ${waiting} We go on ${soon(next)}.`;
    return notice('warn', says);
  }
  const nextAttempt = html`The next attempt is ${soon(next)}${health.waitingReason === 'quiet' && ', when its quiet period ends'}.`;
  if (health.failures > 0) {
    const says = html`${failing(health.firstFailureAt)} ${waiting} ${owed === 0 ? triedByNext : nextAttempt}`;
    return notice('warn', says, advice);
  }
  if (owed > 0) {
    const underWay = health.inFlight > 0 && `${count(health.inFlight, 'attempt')} under way.`;
    const says = html`${waiting} ${underWay || nextAttempt}`;
    if (health.waitingReason === 'retry') return notice('warn', html`${says} An earlier one has failed.`);
    const { situation } = waits[health.waitingReason ?? 'in_flight'];
    return notice(situation === 'clear' || situation === 'draining' ? 'good' : 'warn', says);
  }
  const last = html`${reader.whose} server accepts our notifications, the last one ${fromNow(lastSuccessAt)}.`;
  return notice('good', [
    lastSuccessAt === undefined ? 'Ready: nothing has been sent so far.' : last,
    ` ${waiting}`,
  ]);
}

const longestProbe = span(Math.max(...constants.probeScheduleMs));

const soon = (atMs: number | undefined) => (atMs === undefined || atMs <= Date.now() ? 'now' : fromNow(atMs));

/** Says what an endpoint does wrong, for a row of a list; empty if nothing is known. */
export const faultInWords = (health: Endpoint): string =>
  health.lastFailureAt === undefined || health.failures === 0 ? '' : explainFailure(lastFailure(health)).does;

const lastFailure = ({ lastError: error, lastDetail: detail, lastStatus: status }: Endpoint) => {
  return { error, detail, status };
};

const cancelled: Record<string, string> = {
  client_deleted: 'its site was deleted',
  asset_forgotten: 'the platform has forgotten its video',
  url_removed: 'the URL for notices was removed',
  dismissed: 'it had failed, and was dismissed',
};

/** Says why a notification is in its state; empty if the name of the state says it all. */
export function stateSentence(n: ListedNotification): string {
  switch (n.state) {
    case 'waiting':
      return n.waitingReason === undefined ? '' : waits[n.waitingReason].says;
    case 'superseded':
      return `a newer notification of this asset took its place: ${n.by ?? 'its record is gone'}`;
    case 'not_needed':
      return `another event brought the same segments first: ${n.by ?? 'its record is gone'}`;
    case 'failed':
      return n.reason === 'expired'
        ? `it could not be delivered${n.endedAt === undefined ? '' : ` for ${span(n.endedAt - n.acceptedAt)}`}`
        : 'it failed for 5 days while others succeeded';
    case 'cancelled':
      return cancelled[n.reason ?? ''] ?? 'by an operator';
    default:
      return '';
  }
}

/** Says when a waiting notification is tried: while its endpoint fails, a probe comes first, and may be another notification. */
export function nextAttempt({ state, nextAttemptAt, waitingReason }: ListedNotification): Piece {
  if (state !== 'waiting') return '';
  if (waitingReason === 'failing') return html`when a probe succeeds (next ${soon(nextAttemptAt)})`;
  return nextAttemptAt === undefined ? waits[waitingReason ?? 'due'].says : soon(nextAttemptAt);
}
