import { ApplicationFailure, Context } from '@temporalio/activity';
import { ApplicationFailureCategory } from '@temporalio/common';
import { deliverEvents } from '../src/delivery/deliver.js';
import {
  isRetriedShortly,
  isSoon,
  type Outcome,
  type Report,
  reportOf,
  type Waiting,
} from '../src/delivery/outcome.js';
import type { ClaimedEvent } from '../src/redis/owed/claim.js';
import { spanFor } from '../src/tracing.js';
import type { ActivityDeps } from '../src/upkeep/deps.js';
import { withHeartbeat } from './heartbeat.js';

/** A local activity keeps its workflow's task open: what takes longer is `awaitDelivery`'s. */
const firstMs = 500;
/** A lease is 5 s longer than an attempt may take. */
const afterLeaseMs = -3000;

/** Waits for the first attempts of these events for a short time, and begins those that have not begun. */
export async function deliver(deps: ActivityDeps, events: ClaimedEvent[]): Promise<Report> {
  return reportOf(await traced(deps, events, () => deliverEvents(deps, events, firstMs)));
}

/**
 * Waits for events that `deliver` has not finished, as long as an attempt may take. Fails if some of them wait for a retry of the
 * first minutes, so that Temporal shows the last failure and keeps the time of the next attempt. What found no place meanwhile is
 * handed over to catch-up, as is what catch-up has already.
 * @throws ApplicationFailure its type is the contract's error class, or why it waits
 */
export async function awaitDelivery(deps: ActivityDeps, events: ClaimedEvent[]): Promise<Report> {
  const { cancellationSignal } = Context.current();
  const forMs = deps.settings.leaseMs + afterLeaseMs;
  return await withHeartbeat(async () => {
    const outcomes = await traced(deps, events, () => deliverEvents(deps, events, forMs, cancellationSignal));
    const crowded = events.filter((_, i) => {
      const outcome = outcomes[i];
      return outcome !== undefined && isSoon(outcome) && !isRetriedShortly(outcome);
    });
    await handOver(deps, [...new Set(crowded.map(({ clientToken }) => clientToken))]);
    const later = outcomes.filter(isRetriedShortly);
    if (later.length > 0) throw failureOf(events, outcomes, later);
    return reportOf(outcomes);
  });
}

/** Hands these clients' owed assets over to catch-up: wakes it if it would plan too late. */
export async function handOver(
  { catchUps }: Pick<ActivityDeps, 'catchUps'>,
  clientTokens: string[],
): Promise<void> {
  await Promise.all(clientTokens.map((clientToken) => catchUps.wake(clientToken, 0)));
}

/** Makes the failure that Temporal shows: that of the event that is due first, with the time of its retry. */
function failureOf(events: ClaimedEvent[], outcomes: Outcome[], later: Waiting[]): ApplicationFailure {
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

function describe({ reason, error, status, target, failures }: Waiting): string {
  if (reason !== 'retry') return `waits: ${reason}`;
  return `attempt ${failures} of ${target ?? 'it'} failed: ${error ?? 'failed'}${status === undefined ? '' : ` ${status}`}`;
}

/**
 * Traces an attempt of an activity of `enrichment`: in its event's trace, or, for several events, in a new trace with a link to
 * each. Without tracing it only does the work.
 */
async function traced(
  { tracing }: ActivityDeps,
  events: readonly ClaimedEvent[],
  work: () => Promise<Outcome[]>,
): Promise<Outcome[]> {
  if (tracing === undefined || events.every(({ trace }) => trace === undefined)) return await work();
  const { activityType, attempt, workflowExecution } = Context.current().info;
  const span = tracing.begin(`RunActivity:${activityType}`, {
    ...spanFor(events.map(({ trace }) => trace)),
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
