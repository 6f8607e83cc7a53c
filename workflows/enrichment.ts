import {
  CancellationScope,
  proxyActivities,
  proxyLocalActivities,
  setCurrentDetails,
  upsertMemo,
  upsertSearchAttributes,
  workflowInfo,
} from '@temporalio/workflow';
import type { Activities } from '../activities/index.js';
import { type EnrichmentInput, highest, isRetriedShortly, type Report } from '../src/delivery/outcome.js';
import type { ClaimedEvent } from '../src/redis/owed/claim.js';
import type { Outcome } from '../src/redis/owed/standing.js';
import { httpStatusKey, notificationStateKey, workflowIds } from '../src/temporal/workflowIds.js';

const { deliver } = proxyLocalActivities<Activities>({
  startToCloseTimeout: '30s',
  retry: { initialInterval: '200ms', backoffCoefficient: 2, maximumInterval: '10s' },
  localRetryThreshold: '2s',
});

const { awaitDelivery } = proxyActivities<Activities>({
  startToCloseTimeout: '90s',
  heartbeatTimeout: '15s',
  retry: { initialInterval: '1s', backoffCoefficient: 2, maximumInterval: '10s' },
});

/**
 * Delivers one claimed event, or a group of them: first attempts and retries for some minutes; catch-up delivers the rest. What was
 * delivered before the start is only counted.
 * Cancelling or terminating the workflow loses nothing: claimed events are owed, and the sweep picks up what is owed.
 */
export async function enrichment({ events, before }: EnrichmentInput): Promise<EnrichmentResult> {
  if (events.length === 0) return presentResult(events, before);
  let left = events.map((_, i) => i);
  let report = merge(before, left, await CancellationScope.nonCancellable(() => deliver(events)));
  left = findRetried(report);
  while (left.length > 0) {
    showProgress(report);
    // The first status is shown while the event waits for its retry; then Temporal shows each failure.
    const untilAnswered = findWorstStatus(report) === undefined;
    report = merge(report, left, await awaitDelivery(pick(events, left), untilAnswered));
    left = findRetried(report);
    if (left.length === 0) hideProgress();
  }
  showState(findLeastFinished(report), report);
  return presentResult(events, report);
}

function findRetried({ rest }: Report): number[] {
  return rest.filter(({ outcome }) => isRetriedShortly(outcome)).map(({ index }) => index);
}

const pick = (events: ClaimedEvent[], indexes: number[]) => indexes.map((i) => events[i] as ClaimedEvent);

/** Merges a second report, on the unfinished events, into the first. */
function merge(first: Report, unfinished: number[], second: Report): Report {
  const later = new Set(unfinished);
  return {
    delivered: first.delivered + second.delivered,
    status: highest(first.status, second.status),
    milliseconds: highest(first.milliseconds, second.milliseconds),
    rest: [
      ...first.rest.filter(({ index }) => !later.has(index)),
      ...second.rest.map(({ index, outcome }) => ({ index: unfinished[index] as number, outcome })),
    ],
  };
}

const countEvents = ({ delivered, rest }: Report): number => delivered + rest.length;

/** Shows how many events wait, and why. */
function showProgress(report: Report): void {
  const waiting = report.rest.filter(({ outcome }) => outcome.state === 'waiting');
  showState('waiting', report);
  const words = `${waiting.length} of ${countEvents(report)} wait: ${countReasons(waiting.map(({ outcome }) => outcome))}`;
  setCurrentDetails(words);
  upsertMemo({ progress: words });
}

function showState(state: Outcome['state'], report: Report): void {
  const status = findWorstStatus(report);
  upsertSearchAttributes([
    { key: notificationStateKey, value: state },
    ...(status === undefined ? [] : [{ key: httpStatusKey, value: status }]),
  ]);
}

function hideProgress(): void {
  setCurrentDetails('');
  upsertMemo({ progress: null });
}

function countReasons(outcomes: Outcome[]): string {
  const counts = new Map<string, number>();
  for (const outcome of outcomes) {
    const reason = outcome.state === 'waiting' ? outcome.reason : outcome.state;
    counts.set(reason, (counts.get(reason) ?? 0) + 1);
  }
  return [...counts].map(([reason, n]) => `${n} ${reason}`).join(', ');
}

/** The result of one event, or of a group, as the Temporal UI shows it. */
type EnrichmentResult = OneResult | GroupResult;

interface OneResult {
  state: Outcome['state'];
  status?: number;
  milliseconds?: number;
  reason?: string;
  error?: string;
  failed_attempts?: number;
  /** Id of the workflow that delivers the event: `catch-up/<client token>`. */
  handed_to?: string;
}

interface GroupResult {
  events: number;
  delivered: number;
  /** Events by every other state. */
  [state: string]: unknown;
  worst_status?: number;
  slowest_milliseconds?: number;
  /** The first hundred that were not delivered. */
  not_delivered?: (OneResult & { client_token: string; platform_id: string; notification_id: string })[];
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
function findLeastFinished({ rest }: Report): Outcome['state'] {
  return states.find((state) => rest.some(({ outcome }) => outcome.state === state)) ?? 'delivered';
}

/** Returns the highest HTTP status of all events; undefined if no receiver answered. */
function findWorstStatus({ status, rest }: Report): number | undefined {
  return rest.reduce((worst, { outcome }) => highest(worst, outcome.status), status);
}

function presentResult(events: readonly ClaimedEvent[], report: Report): EnrichmentResult {
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

function presentOutcome(event: ClaimedEvent | undefined, outcome: Outcome): OneResult {
  const { state, status } = outcome;
  if (outcome.state !== 'waiting') return { state, status, milliseconds: outcome.milliseconds };
  const { reason, error, failures } = outcome;
  return {
    state,
    status,
    reason,
    error,
    failed_attempts: failures > 0 ? failures : undefined,
    handed_to: event && workflowIds(workflowInfo().taskQueue).catchUp(event.clientToken),
  };
}
