/** Delivers events: has hands send what is due, and reads in Redis what became of it. */
import { setTimeout as sleep } from 'node:timers/promises';
import { isRedisUnavailable } from '../redis/connection/unavailable.js';
import { type Claim, type ClaimedEvent, claimAgain, claimsPerScript } from '../redis/owed/claim.js';
import { ended, type Outcome, readStandings, waiting } from '../redis/owed/standing.js';
import type { Hands } from './hands.js';
import { isCrowded, isRetriedShortly } from './outcome.js';
import type { SendDeps } from './send.js';

export interface DeliverDeps extends Pick<SendDeps, 'db' | 'catchUps' | 'log'> {
  hands: Hands;
}

/** While something of a client is in flight, its events are looked up in Redis at this interval. */
const lookEveryMs = 1000;

/** A run of an activity, for events of some clients. */
interface Run {
  /** By the clock of `performance.now`. */
  endsAt: number;
  cancelled: AbortSignal | undefined;
  /** As far as they are known, by notification. */
  outcomes: Map<string, Outcome>;
}

/**
 * Has the hands of these events' clients send what is due, for at most `forMs`, until each event has ended or waits for a later
 * retry. No client's events wait for those of another client.
 * @param cancelled makes it return within a second
 * @param outcomes gets each outcome as soon as it is known, by notification
 */
export async function deliverEvents(
  deps: DeliverDeps,
  events: readonly ClaimedEvent[],
  forMs: number,
  cancelled?: AbortSignal,
  outcomes = new Map<string, Outcome>(),
): Promise<Outcome[]> {
  const run: Run = { endsAt: performance.now() + forMs, cancelled, outcomes };
  const byClient = new Map<string, ClientEvents>();
  for (const event of events) {
    const own = byClient.get(event.clientToken) ?? new ClientEvents(deps, event.clientToken, run);
    byClient.set(event.clientToken, own);
    own.left.set(event.notificationId, event);
  }
  await Promise.all([...byClient.values()].map((one) => one.waitForOutcomes()));
  return events.map(({ notificationId }) => outcomes.get(notificationId) ?? waiting('in_flight', undefined));
}

class ClientEvents {
  readonly left = new Map<string, ClaimedEvent>();

  constructor(
    readonly deps: DeliverDeps,
    readonly clientToken: string,
    readonly run: Run,
  ) {}

  async waitForOutcomes(): Promise<void> {
    const { hands } = this.deps;
    const { endsAt, cancelled } = this.run;
    for (let isIdle = false; ; ) {
      const leftMs = endsAt - performance.now();
      const isLast = leftMs <= 0 || cancelled?.aborted === true || hands.isClosed;
      await this.#refresh();
      if (isLast || this.left.size === 0) return;
      const waitMs = Math.min(lookEveryMs, leftMs);
      // An event that an idle hand leaves is in flight in another process, or finds no place.
      if (isIdle) await sleep(waitMs);
      isIdle = !isIdle && (await hands.idle(this.clientToken, waitMs));
    }
  }

  #note(id: string, outcome: Outcome): void {
    this.run.outcomes.set(id, outcome);
    // The hand or another call of the activity makes a later retry.
    const isLater =
      outcome.state === 'waiting' &&
      outcome.reason === 'retry' &&
      (outcome.at ?? 0) > Date.now() + lookEveryMs;
    const isSoon = isCrowded(outcome) || (isRetriedShortly(outcome) && !isLater);
    if (!isSoon) this.left.delete(id);
  }

  /**
   * Reads from Redis how the events that are left stand, and claims again those that Redis has lost. While Redis is unavailable they
   * stay; with broken keys catch-up gets them.
   */
  async #refresh(): Promise<void> {
    const events = [...this.left.values()];
    const lost: ClaimedEvent[] = [];
    try {
      const standings = await readStandings(this.deps.db, this.clientToken, events);
      for (const [i, standing] of standings.entries()) {
        const event = events[i] as ClaimedEvent;
        if (standing === 'lost') lost.push(event);
        // Only an attempt that could not be made is due later without a failed attempt.
        else if (standing.state === 'waiting' && standing.reason === 'retry' && standing.failures === 0)
          this.#note(event.notificationId, { ...standing, reason: 'own_failure' });
        else this.#note(event.notificationId, standing);
      }
      for (let i = 0; i < lost.length; i += claimsPerScript)
        await this.#claimAgain(lost.slice(i, i + claimsPerScript));
    } catch (err) {
      if (isRedisUnavailable(err)) return;
      this.deps.hands.deps.log.warn({ err, client_token: this.clientToken }, 'events could not be looked up');
      for (const id of this.left.keys()) this.#note(id, waiting('own_failure', undefined));
    }
  }

  async #claimAgain(lost: readonly ClaimedEvent[]): Promise<void> {
    const { db, catchUps, hands } = this.deps;
    const { metrics } = hands.deps;
    const { claims, wakeCatchUp } = await claimAgain(db, this.clientToken, lost);
    if (wakeCatchUp) void catchUps.wake(this.clientToken);
    for (const [i, { notificationId }] of lost.entries()) {
      const claim = claims[i] as Claim;
      if (claim.kind === 'claimed') {
        if (claim.supersedes) metrics.ended('superseded');
        continue;
      }
      if (claim.kind === 'not_needed') metrics.ended('not_needed');
      this.#note(notificationId, ended(claim.kind === 'ended' ? claim.state : 'not_needed'));
    }
  }
}
