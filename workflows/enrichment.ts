import {
  CancellationScope,
  proxyActivities,
  proxyLocalActivities,
  setCurrentDetails,
  upsertMemo,
  upsertSearchAttributes,
} from '@temporalio/workflow';
import type { Activities } from '../activities/index.js';
import { type EnrichmentInput, highest, isRetriedShortly, type Report } from '../src/delivery/outcome.js';
import type { ClaimedEvent } from '../src/redis/owed/claim.js';
import type { Outcome } from '../src/redis/owed/standing.js';
import { httpStatusKey, notificationStateKey } from '../src/temporal/workflowIds.js';
import { describeWaiting, findLeastFinished, findWorstStatus, presentResult } from './result.js';

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
export async function enrichment({ events, before }: EnrichmentInput) {
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

const findRetried = ({ rest }: Report): number[] =>
  rest.filter(({ outcome }) => isRetriedShortly(outcome)).map(({ index }) => index);

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

function showProgress(report: Report): void {
  showState('waiting', report);
  const progress = describeWaiting(report);
  setCurrentDetails(progress);
  upsertMemo({ progress });
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
