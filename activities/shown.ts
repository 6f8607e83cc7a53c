/** What Temporal, and tracing, show of an activity. */
import { ApplicationFailure, Context } from '@temporalio/activity';
import { ApplicationFailureCategory } from '@temporalio/common';
import type { ClaimedEvent } from '../src/redis/owed/claim.js';
import type { Outcome, Waiting } from '../src/redis/owed/standing.js';
import type { Tracing } from '../src/tracing.js';

/** Describes for an operator how far a wait is. `reason`: why the first waiting event is not sent now. */
export function describeProgress(events: readonly ClaimedEvent[], known: ReadonlyMap<string, Outcome>) {
  const outcomes = events.map(({ notificationId }) => known.get(notificationId));
  const delivered = outcomes.filter((outcome) => outcome?.state === 'delivered').length;
  const reasons = outcomes.flatMap((outcome) => {
    if (outcome === undefined) return ['in_flight'];
    return outcome.state === 'waiting' ? [outcome.reason] : [];
  });
  return { delivered, waiting: reasons.length, reason: reasons[0] };
}

/** Makes the failure that Temporal shows, with the error and the retry time of the event that is due first. */
export function makeFailure(
  events: ClaimedEvent[],
  outcomes: Outcome[],
  later: Waiting[],
): ApplicationFailure {
  const first = later.reduce((a, b) => ((b.at ?? 0) < (a.at ?? 0) ? b : a));
  const event = events[outcomes.indexOf(first)] as ClaimedEvent;
  const others = later.length > 1 ? `; ${later.length - 1} more of ${events.length} wait` : '';
  const failure = ApplicationFailure.create({
    type: first.error ?? first.reason,
    message: `${describe(first)} (${event.platformId} to ${event.clientToken})${others}`,
    nextRetryDelay: Math.max((first.at ?? 0) - Date.now(), 1),
    // A receiver's answer is no fault of this worker: no warning, and not counted as failed.
    category: ApplicationFailureCategory.BENIGN,
  });
  // The failure is a receiver's answer: a stack trace of this code would mislead.
  failure.stack = '';
  return failure;
}

function describe({ reason, error, detail, status, target, failures }: Waiting): string {
  if (reason !== 'retry') return `waits: ${reason}`;
  const why = [error ?? 'failed', detail, status].filter((part) => part !== undefined).join(' ');
  return `attempt ${failures} of ${target ?? 'it'} failed: ${why}`;
}

/**
 * Traces an attempt of an activity of `enrichment`: in its event's trace, or, for several events, in a new trace with a link to
 * each. Without tracing it only does the work.
 */
export async function traced(
  { tracing }: { tracing?: Tracing },
  events: readonly ClaimedEvent[],
  work: () => Promise<Outcome[]>,
): Promise<Outcome[]> {
  if (tracing === undefined || events.every(({ trace }) => trace === undefined)) return await work();
  const { activityType, attempt, workflowExecution } = Context.current().info;
  const span = tracing.begin(`RunActivity:${activityType}`, {
    traces: events.map(({ trace }) => trace),
    attributes: {
      temporalWorkflowId: workflowExecution?.workflowId ?? '',
      'asset_update.events': events.length,
      'asset_update.activity_attempt': attempt,
    },
  });
  try {
    const outcomes = await work();
    span.end({ 'asset_update.delivered': outcomes.filter(({ state }) => state === 'delivered').length });
    return outcomes;
  } catch (err) {
    span.end({}, err instanceof Error ? err.name : 'error');
    throw err;
  }
}
