import type { ClaimedEvent } from '../redis/owed/claim.js';
import type { TakeMode } from '../redis/owed/take.js';
import type { Attemptable } from './attempt.js';
import type { Outcome } from './outcome.js';

/** A notification to be attempted. */
export interface Delivery extends Attemptable {
  priority: 'live' | 'backfill';
  /** Its event, where the caller has it: the engine claims again what Redis has lost of it. */
  event?: ClaimedEvent;
  /** The traceparent of its event, where the caller knows that alone: the attempt is in a trace of its own, linked to it. */
  linkedTrace?: string;
}

/** Makes the delivery of a claimed event. */
export function toDelivery(event: ClaimedEvent): Delivery {
  const { clientToken, platformId, notificationId, priority } = event;
  return { clientToken, platformId, notificationId, priority, event };
}

/** One attempt of a notification in this process, from the request for it until its outcome is known. */
export class Work {
  readonly outcome: Promise<Outcome>;
  /** How often an attempt of somebody else held its asset. */
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

  /** Whether a new event waits for it: not what a drain has found. */
  get isLive(): boolean {
    return this.delivery.priority === 'live' && this.mode !== 'drain';
  }

  /** Tells events by their priority from what catch-up has planned. */
  get lane(): 'live' | 'backfill' | 'planned' {
    return this.mode === 'drain' || this.mode === 'probe' ? 'planned' : this.delivery.priority;
  }

  /** Tells everybody who waits for the outcome. */
  end(outcome: Outcome): void {
    this.#resolve(outcome);
  }
}
