import { ApplicationFailure, Context } from '@temporalio/activity';
import { handOverRetries } from '../src/delivery/handOverRetries.js';
import { isRetriedShortly, type Outcome, type Waiting } from '../src/delivery/outcome.js';
import { type Report, reportOf } from '../src/delivery/report.js';
import { seeThrough } from '../src/delivery/seeThrough.js';
import type { ClaimedEvent } from '../src/redis/owed/claim.js';
import type { ActivityDeps } from '../src/upkeep/deps.js';
import { withHeartbeat } from './heartbeat.js';
import { traceActivity } from './traceActivity.js';

/**
 * Finishes the events that `deliver` has not finished: waits for attempts under way and makes due attempts. Fails once
 * all remaining events wait for a later retry, so that Temporal shows the last failure and times the next attempt. Hands
 * events that are still owed after the short retries over to catch-up.
 *
 * @param known the outcomes so far
 * @throws ApplicationFailure its type is the contract's error class, or why it waits
 */
export async function awaitDelivery(
  deps: ActivityDeps,
  events: ClaimedEvent[],
  known: Waiting[] = [],
): Promise<Report> {
  const { engine, catchUps } = deps;
  const { info, cancellationSignal } = Context.current();
  return await withHeartbeat(async () => {
    // The outcomes known at that time are outdated for a later attempt of this activity.
    const knownNow = info.attempt === 1 ? known : [];
    const outcomes = await traceActivity(deps, events, () =>
      seeThrough(engine, events, knownNow, cancellationSignal),
    );
    const later = outcomes.filter(isRetriedShortly);
    if (later.length > 0) throw failureOf(events, outcomes, later);
    await handOverRetries(catchUps, events, outcomes);
    return reportOf(outcomes);
  });
}

/** Makes the failure that Temporal shows: that of the event that is due first, with the time of its retry. */
function failureOf(events: ClaimedEvent[], outcomes: Outcome[], later: Waiting[]): ApplicationFailure {
  const first = later.reduce((a, b) => (b.inMs < a.inMs ? b : a));
  const event = events[outcomes.indexOf(first)] as ClaimedEvent;
  const others = later.length > 1 ? `; ${later.length - 1} more of ${events.length} wait` : '';
  const failure = ApplicationFailure.create({
    type: first.error ?? first.reason,
    message: `${describe(first)} (${event.platformId} to ${event.clientToken})${others}`,
    nextRetryDelay: Math.max(first.inMs, 1),
  });
  // The failure is a receiver's answer: a stack trace of this code would mislead.
  failure.stack = '';
  return failure;
}

function describe({ reason, error, status, target, failures }: Waiting): string {
  if (reason !== 'retry') return `waits: ${reason}`;
  return `attempt ${failures} of ${target ?? 'it'} failed: ${error ?? 'failed'}${status === undefined ? '' : ` ${status}`}`;
}
