import type { TakeMode } from '../redis/owed/take.js';
import { type Delivery, Work } from './work.js';

/** Each priority has its own bound: a full queue of one refuses nothing of the other. */
const maxQueued = 20_000;

/** The work that this process has in hand: at most one of each notification, and one that sends it again. */
export class Works {
  readonly #inHand = new Map<string, Work>();
  readonly #queued = { live: 0, backfill: 0, planned: 0 };

  /** Notifications that have queued for a place and have no outcome yet. */
  get queued(): number {
    return this.#queued.live + this.#queued.backfill + this.#queued.planned;
  }

  find({ notificationId }: Delivery, mode: TakeMode): Work | undefined {
    return this.#inHand.get(keyOf(notificationId, mode));
  }

  /** Holds a delivery until its outcome is known. */
  add(delivery: Delivery, mode: TakeMode): Work {
    const work = new Work(delivery, mode);
    const key = keyOf(delivery.notificationId, mode);
    this.#inHand.set(key, work);
    void work.outcome.then(() => this.#inHand.delete(key));
    return work;
  }

  /** Whether this process holds as many waiting events as it may. Works of drains always fit: they are few, and planned again. */
  isFullFor({ lane }: Work): boolean {
    return lane !== 'planned' && this.#queued[lane] >= maxQueued;
  }

  /** Counts a work as queued until its outcome is known. */
  countQueued(work: Work): void {
    this.#queued[work.lane]++;
    void work.outcome.then(() => this.#queued[work.lane]--);
  }

  /** Waits until every work has its outcome. */
  async allEnded(): Promise<void> {
    await Promise.all([...this.#inHand.values()].map(({ outcome }) => outcome));
  }
}

function keyOf(notificationId: string, mode: TakeMode): string {
  return mode === 'redeliver' ? `again ${notificationId}` : notificationId;
}
