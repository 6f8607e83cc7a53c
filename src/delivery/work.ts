import type { ClaimedEvent } from '../redis/owed/claim.js';
import type { TakeMode } from '../redis/owed/take.js';
import type { Attemptable } from './attempt.js';
import type { Outcome } from './outcome.js';

/** A notification to be attempted. */
export interface Delivery extends Attemptable {
  priority: 'live' | 'backfill';
  /** Its event, where it is known: what Redis has lost of it is claimed again. */
  event?: ClaimedEvent;
}

/** What the engine makes of an event. */
export function deliveryOf(event: ClaimedEvent): Delivery {
  const { clientToken, platformId, notificationId, priority } = event;
  return { clientToken, platformId, notificationId, priority, event };
}

/** One attempt of a notification in the hands of the engine, from the moment it is asked for until its outcome is known. */
export class Work {
  readonly outcome: Promise<Outcome>;
  /** How often it was found leased by somebody else. */
  timesLeased = 0;
  #resolve: (outcome: Outcome) => void = () => undefined;

  constructor(
    readonly delivery: Delivery,
    readonly mode: TakeMode,
  ) {
    this.outcome = new Promise((resolve) => {
      this.#resolve = resolve;
    });
  }

  end(outcome: Outcome): void {
    this.#resolve(outcome);
  }
}
