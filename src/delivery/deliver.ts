import { type ClaimedEvent, claimAgain } from '../redis/owed/claim.js';
import { standingsOf } from '../redis/owed/standing.js';
import type { Couriers } from './couriers.js';
import { endedState, isSoon, type Outcome, outcomeOfStanding } from './outcome.js';
import type { DeliveryDeps } from './send.js';

export interface DeliverDeps extends Pick<DeliveryDeps, 'db' | 'settings' | 'catchUps'> {
  couriers: Couriers;
}

/** Events that another process sends are looked up in Redis at this interval. */
const lookEveryMs = 1000;
const shortestWaitMs = 20;
/** A call holds one of Temporal's slots: it waits this long for a client's place or rate, then catch-up waits. */
const crowdedMs = 500;

/** When a call ends. */
interface Over {
  readonly endAt: number;
  readonly crowdedUntil: number;
  readonly signal: AbortSignal;
  readonly happens: Promise<void>;
  /** Clients with something to wait for within this call. The call ends when none is left. */
  readonly awake: Set<unknown>;
  /** As far as they are known, by notification. */
  readonly outcomes: Map<string, Outcome>;
  end(): void;
}

/**
 * Has the couriers of these events' clients send what is due, for at most `forMs`, until each event has ended or waits for a later
 * retry. No client's events wait for those of another client.
 * @param cancelled makes it return immediately
 * @param outcomes gets each outcome as soon as it is known, by notification
 */
export async function deliverEvents(
  deps: DeliverDeps,
  events: readonly ClaimedEvent[],
  forMs: number,
  cancelled?: AbortSignal,
  outcomes = new Map<string, Outcome>(),
): Promise<Outcome[]> {
  const ending = new AbortController();
  const happens = new Promise<void>((resolve) => ending.signal.addEventListener('abort', () => resolve()));
  const end = () => ending.abort();
  const timer = setTimeout(end, forMs);
  cancelled?.addEventListener('abort', end, { once: true });
  const now = Date.now();
  const over = {
    endAt: now + forMs,
    crowdedUntil: now + crowdedMs,
    signal: ending.signal,
    happens,
    awake: new Set(),
    outcomes,
    end,
  };
  try {
    const byClient = new Map<string, ClaimedEvent[]>();
    for (const event of events) {
      const own = byClient.get(event.clientToken) ?? [];
      byClient.set(event.clientToken, own);
      own.push(event);
    }
    const all = [...byClient].map(([clientToken, own]) => new Deliveries(deps, clientToken, own, over));
    for (const one of all) over.awake.add(one);
    await Promise.all(all.map((one) => one.see()));
    return events.map(({ notificationId }) => outcomes.get(notificationId) ?? unknown);
  } finally {
    deps.couriers.forget(events.map(({ notificationId }) => notificationId));
    clearTimeout(timer);
    cancelled?.removeEventListener('abort', end);
  }
}

const unknown: Outcome = { state: 'waiting', reason: 'in_flight', failures: 0 };

/** Events of one client, until their outcomes are known. */
class Deliveries {
  readonly #left: Map<string, ClaimedEvent>;

  constructor(
    readonly deps: DeliverDeps,
    readonly clientToken: string,
    events: readonly ClaimedEvent[],
    readonly over: Over,
  ) {
    this.#left = new Map(events.map((event) => [event.notificationId, event]));
  }

  async see(): Promise<void> {
    const { couriers } = this.deps;
    const unknownHere = () => [...this.#left.keys()].filter((id) => !couriers.knows(id));
    for (;;) {
      const told = [...this.#left.keys()].map(async (id) => this.#note(id, await couriers.outcomeOf(id)));
      if (unknownHere().some((id) => this.#isDue(id))) await this.#wait(couriers.poke(this.clientToken));
      // Another process sends the rest, or the rest waits.
      if (unknownHere().length > 0) await this.#look(unknownHere());
      if (this.#left.size === 0 || this.#nextAt() > Date.now() + lookEveryMs) this.#sleep();
      if (this.#left.size === 0) return;
      await this.#wait(Promise.all(told), unknownHere().length === 0 ? this.over.endAt : this.#nextAt());
      this.over.awake.add(this);
      if (this.over.signal.aborted || couriers.isClosed) {
        // A last look: an attempt may have ended just now.
        await this.#look([...this.#left.keys()]);
        return;
      }
    }
  }

  #sleep(): void {
    this.over.awake.delete(this);
    if (this.over.awake.size === 0) this.over.end();
  }

  #note(id: string, outcome: Outcome): void {
    this.over.outcomes.set(id, outcome);
    const isCrowded = outcome.state === 'waiting' && (outcome.reason === 'full' || outcome.reason === 'rate');
    if (!isSoon(outcome) || (isCrowded && Date.now() > this.over.crowdedUntil)) this.#left.delete(id);
  }

  #isDue(id: string): boolean {
    const outcome = this.over.outcomes.get(id);
    if (outcome?.state !== 'waiting') return true;
    return outcome.reason === 'due' || (outcome.reason === 'retry' && (outcome.at ?? 0) <= Date.now());
  }

  /** Returns when to look again, ms: when a retry is due, else after a while. */
  #nextAt(): number {
    const now = Date.now();
    const times = [...this.#left.keys()].map((id) => {
      const outcome = this.over.outcomes.get(id);
      const isRetry = outcome?.state === 'waiting' && outcome.reason === 'retry';
      return isRetry ? Math.max(outcome.at ?? 0, now + shortestWaitMs) : now + lookEveryMs;
    });
    return Math.min(...times);
  }

  /** Reads from Redis how these events stand, and claims again those that Redis has lost. */
  async #look(ids: readonly string[]): Promise<void> {
    const { db, settings, catchUps } = this.deps;
    const { clientToken } = this;
    const events = ids.flatMap((id) => this.#left.get(id) ?? []);
    const standings = await standingsOf(db, clientToken, events, settings.maxInFlight);
    for (const [i, event] of events.entries()) {
      const { notificationId: id } = event;
      const standing = standings[i];
      if (standing === undefined) continue;
      if (standing.kind !== 'lost') this.#note(id, outcomeOfStanding(standing));
      else {
        const { claim, wakeCatchUp } = await claimAgain(db, event);
        if (wakeCatchUp) catchUps.signal(clientToken);
        if (claim.kind === 'ended') this.#note(id, { state: endedState(claim.state) });
        else if (claim.kind === 'not_needed') this.#note(id, { state: 'not_needed' });
        else if (claim.kind !== 'claimed') this.#note(id, { state: 'unknown' });
      }
    }
  }

  /** Waits for `work`, at most until `at` (ms), or until the time of the call is over. */
  async #wait(work: Promise<unknown>, at = this.over.endAt): Promise<void> {
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, at - Date.now());
    });
    await Promise.race([work, this.over.happens, late]);
    clearTimeout(timer);
  }
}
