import {
  CancellationScope,
  isCancellation,
  proxyActivities,
  proxyLocalActivities,
  setCurrentDetails,
  upsertMemo,
  upsertSearchAttributes,
} from '@temporalio/workflow';
import type { Activities } from '../activities/index.js';
import { highest, isSoon, type Outcome, type Report } from '../src/delivery/outcome.js';
import type { EnrichmentInput } from '../src/delivery/workflowStarts.js';
import type { ClaimedEvent } from '../src/redis/owed/claim.js';
import { httpStatusKey, listsOf, notificationStateKey } from '../src/temporal/searchAttributeKeys.js';
import { type EnrichmentResult, resultOf, stateOf, worstStatusOf } from './enrichmentResult.js';

const { deliver } = proxyLocalActivities<Activities>({
  startToCloseTimeout: '30s',
  summary: 'deliver',
  retry: { initialInterval: '200ms', backoffCoefficient: 2, maximumInterval: '10s' },
  localRetryThreshold: '2s',
});

const { awaitDelivery, handOver } = proxyActivities<Activities>({
  startToCloseTimeout: '90s',
  heartbeatTimeout: '15s',
  retry: { initialInterval: '1s', backoffCoefficient: 2, maximumInterval: '10s' },
});

/**
 * Delivers one claimed event, or a group of them: first attempts and retries for some minutes; catch-up delivers the rest.
 * Cancelling or terminating it loses nothing: claimed events are owed, and the sweep picks up what is owed.
 */
export async function enrichment({ events }: EnrichmentInput): Promise<EnrichmentResult> {
  const first = await CancellationScope.nonCancellable(() => deliver(events));
  const unfinished = first.rest.filter(({ outcome }) => isSoon(outcome)).map(({ index }) => index);
  if (unfinished.length === 0) return finish(events, first);

  showProgress(events, first);
  const left = unfinished.map((index) => events[index] as ClaimedEvent);
  try {
    return finish(events, merge(first, unfinished, await awaitDelivery(left)));
  } catch (err) {
    if (!isCancellation(err)) throw err;
    upsertSearchAttributes([{ key: notificationStateKey, value: 'waiting' }]);
    await CancellationScope.nonCancellable(() => handOver([...new Set(left.map((e) => e.clientToken))]));
    throw err;
  }
}

/** Merges the second report, on the unfinished events, into the first. */
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

function finish(events: ClaimedEvent[], report: Report): EnrichmentResult {
  const outcomes = report.rest.map(({ outcome }) => outcome);
  const status = worstStatusOf(report);
  upsertSearchAttributes([
    { key: notificationStateKey, value: stateOf(outcomes) },
    ...(status === undefined ? [] : [{ key: httpStatusKey, value: status }]),
  ]);
  const result = resultOf(events, report);
  setCurrentDetails(JSON.stringify(result));
  return result;
}

/** Shows the waiting events. A group too large for its search attributes is now found by them. */
function showProgress(events: ClaimedEvent[], report: Report): void {
  const waiting = report.rest.filter(({ outcome }) => outcome.state === 'waiting');
  const status = worstStatusOf(report);
  upsertSearchAttributes([
    ...(listsOf(events).cut ? listsOf(waiting.map(({ index }) => events[index] as ClaimedEvent)).lists : []),
    { key: notificationStateKey, value: 'waiting' },
    ...(status === undefined ? [] : [{ key: httpStatusKey, value: status }]),
  ]);
  const words = `${waiting.length} of ${events.length} wait: ${reasonsOf(waiting.map(({ outcome }) => outcome))}`;
  setCurrentDetails(words);
  upsertMemo({ progress: words });
}

function reasonsOf(outcomes: Outcome[]): string {
  const counts = new Map<string, number>();
  for (const outcome of outcomes) {
    const reason = outcome.state === 'waiting' ? outcome.reason : outcome.state;
    counts.set(reason, (counts.get(reason) ?? 0) + 1);
  }
  return [...counts].map(([reason, n]) => `${n} ${reason}`).join(', ');
}
