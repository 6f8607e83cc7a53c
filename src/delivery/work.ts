import type { ClaimedEvent } from '../redis/owed/claim.js';
import type { TakeMode } from '../redis/owed/take.js';
import type { Attemptable } from './attempt.js';
import type { Outcome } from './outcome.js';

/** A notification to be attempted. */
export interface Delivery extends Attemptable {
  priority: 'live' | 'backfill';
  /** Its event, if the caller has it: the engine claims it again if Redis has lost the claim. */
  event?: ClaimedEvent;
}

/** Makes the delivery of a claimed event. */
export function toDelivery(event: ClaimedEvent): Delivery {
  const { clientToken, platformId, notificationId, priority } = event;
  return { clientToken, platformId, notificationId, priority, event };
}

/** One attempt of a notification in this process, from the request for it until its outcome is known. */
export class Work {
  readonly outcome: Promise<Outcome>;
  /** How often another holder's attempt held its asset. */
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

  /** Whether it comes from a new event, not from a drain. */
  get isLive(): boolean {
    return this.delivery.priority === 'live' && this.mode !== 'drain';
  }

  /** Distinguishes events, by priority, from assets that catch-up has planned. */
  get lane(): 'live' | 'backfill' | 'planned' {
    return this.mode === 'drain' || this.mode === 'probe' ? 'planned' : this.delivery.priority;
  }

  /** Reports the outcome to every caller who waits for it. */
  end(outcome: Outcome): void {
    this.#resolve(outcome);
  }
}
