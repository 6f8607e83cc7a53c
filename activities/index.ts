/** Temporal's side of the work: heartbeats, cancellation, and what Temporal and tracing show of an activity. */
import { ApplicationFailure, Context } from '@temporalio/activity';
import { ApplicationFailureCategory } from '@temporalio/common';
import { type DeliverDeps, deliverEvents } from '../src/delivery/deliver.js';
import { isCrowded, isRetriedShortly, type Report, sumUp } from '../src/delivery/outcome.js';
import { explainRefusals, isRedisUnavailable, refusalOf } from '../src/redis/connection/unavailable.js';
import type { ClaimedEvent } from '../src/redis/owed/claim.js';
import type { Outcome, Waiting } from '../src/redis/owed/standing.js';
import type { Tracing } from '../src/tracing.js';
import { type Drained, drainClient } from '../src/upkeep/drain.js';
import type { Swept } from '../src/upkeep/lateCatchUps.js';
import { runSweep } from '../src/upkeep/sweep.js';
import type { SweepDeps } from '../src/upkeep/sweepRound.js';

/** `tracing` is undefined if it is off. */
export type ActivityDeps = DeliverDeps & SweepDeps & { tracing?: Tracing };

export function createActivities(deps: ActivityDeps) {
  return {
    /**
     * Waits for the first attempts of these events for a short time, and begins those that have not begun. Hands events that
     * found no place over to catch-up.
     */
    async deliver(events: ClaimedEvent[]): Promise<Report> {
      const outcomes = await traced(deps, events, () => deliverEvents(deps, events, firstMs)).catch(
        failInWords,
      );
      await handOver(deps, events, outcomes);
      return sumUp(outcomes);
    },

    /**
     * Waits for events that `deliver` has not finished, as long as an attempt may take. Fails if some of them wait for a retry of
     * the first minutes, so that Temporal shows the last failure and keeps the time of the next attempt. Hands events over as
     * `deliver` does.
     * @param untilAnswered once a receiver has answered, its status is returned, whatever waits for a retry
     * @throws ApplicationFailure its type is the contract's error class, or why the event waits
     */
    awaitDelivery(events: ClaimedEvent[], untilAnswered: boolean): Promise<Report> {
      const { cancellationSignal } = Context.current();
      const forMs = deps.db.settings.leaseMs - beforeLeaseEndsMs;
      const known = new Map<string, Outcome>();
      const work = async () => {
        const outcomes = await traced(deps, events, () =>
          deliverEvents(deps, events, forMs, cancellationSignal, known),
        );
        await handOver(deps, events, outcomes);
        const later = outcomes.filter(isRetriedShortly);
        const isAnswered = untilAnswered && outcomes.some(({ status }) => status !== undefined);
        if (later.length > 0 && !isAnswered) throw makeFailure(events, outcomes, later);
        return sumUp(outcomes);
      };
      return withHeartbeat(work, () => describeProgress(events, known));
    },

    /** Has a client's hand send what is due, and plans when to look again. */
    drain(clientToken: string): Promise<Drained> {
      return withHeartbeat(() => drainClient(deps, clientToken));
    },

    sweepOwedClients(): Promise<Swept> {
      const counts = { looked: 0, woken: 0, replaced: 0 };
      return withHeartbeat(
        () => runSweep(deps, counts),
        () => counts,
      );
    },
  };
}

export type Activities = ReturnType<typeof createActivities>;

/** A local activity keeps its workflow's task open: `awaitDelivery` waits for whatever takes longer. */
const firstMs = 500;
/** The wait ends 2 s after the longest attempt, whose lease is 5 s longer. */
const beforeLeaseEndsMs = 3000;
const heartbeatEveryMs = 3000;

/** Sets the alarm for clients whose events wait only for their turn. By then the leases that fill their places have ended or been renewed. */
async function handOver(
  { catchUps, db }: ActivityDeps,
  events: readonly ClaimedEvent[],
  outcomes: readonly Outcome[],
): Promise<void> {
  const crowded = events.filter((_, i) => isCrowded(outcomes[i] as Outcome));
  const clients = new Set(crowded.map(({ clientToken }) => clientToken));
  await Promise.all([...clients].map((clientToken) => catchUps.alarm(clientToken, db.settings.leaseMs)));
}

/** Sends heartbeats with the progress of this activity to Temporal, until `work` has ended. */
async function withHeartbeat<T>(work: () => Promise<T>, progress?: () => unknown): Promise<T> {
  const context = Context.current();
  const timer = setInterval(() => context.heartbeat(progress?.()), heartbeatEveryMs);
  try {
    return await work();
  } catch (err) {
    // Temporal shows the last progress until the next attempt.
    if (progress) context.heartbeat(progress());
    return failInWords(err);
  } finally {
    clearInterval(timer);
  }
}

/** Fails with what Temporal and the log show: an answer of Redis may quote the arguments of a command. */
function failInWords(err: unknown): never {
  if (!isRedisUnavailable(err)) throw err;
  const [why] = explainRefusals([refusalOf(err)]);
  throw ApplicationFailure.create({ type: `redis_${why?.reason}`, message: why?.says });
}

/** Describes for an operator how far a wait is. `reason`: why the first waiting event is not sent now. */
function describeProgress(events: readonly ClaimedEvent[], known: ReadonlyMap<string, Outcome>) {
  const outcomes = events.map(({ notificationId }) => known.get(notificationId));
  const delivered = outcomes.filter((outcome) => outcome?.state === 'delivered').length;
  const reasons = outcomes.flatMap((outcome) => {
    if (outcome === undefined) return ['in_flight'];
    return outcome.state === 'waiting' ? [outcome.reason] : [];
  });
  return { delivered, waiting: reasons.length, reason: reasons[0] };
}

/** Makes the failure that Temporal shows, with the error and the retry time of the event that is due first. */
function makeFailure(events: ClaimedEvent[], outcomes: Outcome[], later: Waiting[]): ApplicationFailure {
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
async function traced(
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
