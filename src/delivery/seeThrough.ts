import { setTimeout as sleep } from 'node:timers/promises';
import type { ClaimedEvent } from '../redis/owed/claim.js';
import type { Engine } from './engine.js';
import { isRetriedShortly, type Outcome, type Waiting } from './outcome.js';
import { toDelivery } from './work.js';

/** Retries due within this time are waited for here; Temporal times later ones. */
const soonMs = 1000;
const shortestWaitMs = 20;

/**
 * Attempts each event when it is due, as long as any of them is under way or due soon. Then it returns; the caller
 * calls again for the events that are due later. Once the engine is closed, it waits only for attempts under way.
 * @param known the outcomes so far
 * @param cancelled makes it return immediately
 */
export async function seeThrough(
  engine: Engine,
  events: readonly ClaimedEvent[],
  known: readonly Waiting[],
  cancelled: AbortSignal,
): Promise<Outcome[]> {
  const active = new Active(events.length);
  const cutOff = new Promise<Outcome>((resolve) => {
    const end = () => {
      active.end();
      resolve({ state: 'waiting', reason: 'under_way', inMs: soonMs, failures: 0 });
    };
    cancelled.addEventListener('abort', end, { once: true });
  });

  async function attempt(event: ClaimedEvent): Promise<Outcome> {
    const outcome = await Promise.race([engine.join(toDelivery(event), 'retry'), cutOff]);
    engine.forget([event.notificationId]);
    return outcome;
  }

  /** Whether no attempt may begin here. Then nothing waits for a retry any more. */
  function isOver(): boolean {
    if (engine.isClosed) active.end();
    return engine.isClosed || cancelled.aborted;
  }

  async function see(event: ClaimedEvent, before: Waiting | undefined): Promise<Outcome> {
    let outcome: Outcome =
      before === undefined || before.reason === 'under_way' ? await attempt(event) : before;
    for (;;) {
      if (!isRetriedShortly(outcome)) {
        active.rest();
        return outcome;
      }
      if (isOver()) return outcome;
      if (outcome.inMs <= soonMs) {
        await sleep(Math.max(outcome.inMs, shortestWaitMs));
      } else {
        active.rest();
        if (await active.endsWithin(outcome.inMs)) return outcome;
        active.goOn();
      }
      if (isOver()) return outcome;
      outcome = await attempt(event);
    }
  }
  return await Promise.all(events.map((event, i) => see(event, known[i])));
}

/** Counts the events that are under way or due soon. */
class Active {
  readonly #ended: Promise<true>;
  #end: (ended: true) => void = () => undefined;

  constructor(private count: number) {
    this.#ended = new Promise((resolve) => {
      this.#end = resolve;
    });
  }

  rest(): void {
    if (--this.count === 0) this.end();
  }

  goOn(): void {
    this.count++;
  }

  end(): void {
    this.#end(true);
  }

  /** Waits until none is left, and at most for `ms`. @returns whether none is left */
  async endsWithin(ms: number): Promise<boolean> {
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<false>((resolve) => {
      timer = setTimeout(resolve, ms, false);
    });
    const hasEnded = await Promise.race([this.#ended, late]);
    clearTimeout(timer);
    return hasEnded;
  }
}
