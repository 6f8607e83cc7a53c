/** The outcomes of a workflow's events, as the Temporal UI shows them. */
import { workflowInfo } from '@temporalio/workflow';
import { highest, type Report } from '../src/delivery/outcome.js';
import type { ClaimedEvent } from '../src/redis/owed/claim.js';
import type { Outcome } from '../src/redis/owed/standing.js';
import { workflowIds } from '../src/temporal/workflowIds.js';

const countEvents = ({ delivered, rest }: Report): number => delivered + rest.length;

export function describeWaiting(report: Report): string {
  const reasons = report.rest.flatMap(({ outcome }) => (outcome.state === 'waiting' ? [outcome.reason] : []));
  const counts = new Map<string, number>();
  for (const reason of reasons) counts.set(reason, (counts.get(reason) ?? 0) + 1);
  const counted = [...counts].map(([reason, n]) => `${n} ${reason}`).join(', ');
  return `${reasons.length} of ${countEvents(report)} wait: ${counted}`;
}

const maxNamed = 100;

/** From the least finished state to the most finished. */
const states: readonly Outcome['state'][] = [
  'waiting',
  'failed',
  'cancelled',
  'unknown',
  'not_needed',
  'superseded',
  'delivered',
];

/** Returns the least finished state of the events that were not delivered; `delivered` if all were. */
export const findLeastFinished = ({ rest }: Report): Outcome['state'] =>
  states.find((state) => rest.some(({ outcome }) => outcome.state === state)) ?? 'delivered';

/** Returns the highest HTTP status of all events; undefined if no receiver answered. */
export const findWorstStatus = ({ status, rest }: Report): number | undefined =>
  rest.reduce((worst, { outcome }) => highest(worst, outcome.status), status);

/** Returns the result of one event, or of a group: its events by state, and the first hundred that wait or failed. */
export function presentResult(events: readonly ClaimedEvent[], report: Report) {
  const { delivered, status, milliseconds, rest } = report;
  if (countEvents(report) === 1) {
    const [other] = rest;
    return other === undefined
      ? { state: 'delivered', status, milliseconds }
      : presentOutcome(events[0], other.outcome);
  }
  const counts: Record<string, number> = {};
  for (const { outcome } of rest) counts[outcome.state] = (counts[outcome.state] ?? 0) + 1;
  const named = rest
    .filter(({ outcome }) => outcome.state === 'waiting' || outcome.state === 'failed')
    .slice(0, maxNamed)
    .map(({ index, outcome }) => {
      const event = events[index] as ClaimedEvent;
      const { clientToken, platformId, notificationId } = event;
      const names = { client_token: clientToken, platform_id: platformId, notification_id: notificationId };
      return { ...names, ...presentOutcome(event, outcome) };
    });
  return {
    events: countEvents(report),
    delivered,
    ...counts,
    worst_status: findWorstStatus(report),
    slowest_milliseconds: milliseconds,
    not_delivered: named.length > 0 ? named : undefined,
  };
}

function presentOutcome(event: ClaimedEvent | undefined, outcome: Outcome) {
  const { state, status } = outcome;
  if (outcome.state !== 'waiting') return { state, status, milliseconds: outcome.milliseconds };
  const { reason, error, failures } = outcome;
  return {
    state,
    status,
    reason,
    error,
    failed_attempts: failures > 0 ? failures : undefined,
    // The id of the workflow that delivers the event.
    handed_to: event && workflowIds(workflowInfo().taskQueue).catchUp(event.clientToken),
  };
}
