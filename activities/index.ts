/** Temporal's side of the work: heartbeats, cancellation. */
import { Context } from '@temporalio/activity';
import { type DeliverDeps, deliverEvents } from '../src/delivery/deliver.js';
import { isCrowded, isRetriedShortly, type Report, sumUp } from '../src/delivery/outcome.js';
import type { ClaimedEvent } from '../src/redis/owed/claim.js';
import type { Outcome } from '../src/redis/owed/standing.js';
import type { Tracing } from '../src/tracing.js';
import { type Drained, drainClient } from '../src/upkeep/drain.js';
import { runSweep, type SweepDeps, type Swept } from '../src/upkeep/sweep.js';
import { describeProgress, makeFailure, traced } from './shown.js';

/** `tracing` is undefined if it is off. */
export type ActivityDeps = DeliverDeps & SweepDeps & { tracing?: Tracing };

export function createActivities(deps: ActivityDeps) {
  return {
    /**
     * Waits for the first attempts of these events for a short time, and begins those that have not begun. Hands events that
     * found no place over to catch-up.
     */
    async deliver(events: ClaimedEvent[]): Promise<Report> {
      const outcomes = await traced(deps, events, () => deliverEvents(deps, events, firstMs));
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
      const forMs = deps.settings.leaseMs - beforeLeaseEndsMs;
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

    /** Finds owed assets that nothing works on. */
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
  { catchUps, settings }: ActivityDeps,
  events: readonly ClaimedEvent[],
  outcomes: readonly Outcome[],
): Promise<void> {
  const crowded = events.filter((_, i) => isCrowded(outcomes[i] as Outcome));
  const clients = new Set(crowded.map(({ clientToken }) => clientToken));
  await Promise.all([...clients].map((clientToken) => catchUps.alarm(clientToken, settings.leaseMs)));
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
    throw err;
  } finally {
    clearInterval(timer);
  }
}
