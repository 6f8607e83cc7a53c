import type { Work } from './work.js';

/** While both priorities wait, one place in so many goes to backfill. */
const backfillShare = 4;
/** Events of each priority. */
const maxQueuedPerClient = 5_000;
const firstParkMs = 50;
export const longestParkMs = 1000;

export interface Picked {
  work: Work;
  /** Backfill whose turn it is: it may have any place of the client's. */
  share: boolean;
}

/**
 * The work of one client that waits: in the order in which it came, live events before backfill but for the share of
 * backfill; and parked beside that, what waits for another attempt of its asset.
 */
export class ClientQueue {
  readonly #waiting = { live: [] as Work[], backfill: [] as Work[] };
  readonly #parked = new Map<Work, NodeJS.Timeout>();
  #picks = 0;

  /** Work that waits for a place. */
  get length(): number {
    return this.#waiting.live.length + this.#waiting.backfill.length;
  }

  /** Whether nothing waits, for a place or for another attempt. */
  get isEmpty(): boolean {
    return this.length === 0 && this.#parked.size === 0;
  }

  /** Whether as many events wait as one client may have here. */
  isFullFor({ lane }: Work): boolean {
    return lane !== 'planned' && this.#waiting[lane].length >= maxQueuedPerClient;
  }

  hasLive(): boolean {
    return this.#waiting.live.some(({ isLive }) => isLive);
  }

  add(work: Work): void {
    this.#waiting[work.delivery.priority].push(work);
  }

  /** Puts work before all others of its priority. */
  addFirst(work: Work): void {
    this.#waiting[work.delivery.priority].unshift(work);
  }

  /** Takes out the next ones, at most `max`. */
  pick(max: number): Picked[] {
    const { live, backfill } = this.#waiting;
    const picked: Picked[] = [];
    while (picked.length < max) {
      const isBackfillsTurn = backfill.length > 0 && (live.length === 0 || this.#picks % backfillShare === 0);
      const work = isBackfillsTurn ? backfill.shift() : live.shift();
      if (work === undefined) break;
      if (this.length > 0) this.#picks++;
      picked.push({ work, share: isBackfillsTurn && live.length > 0 });
    }
    return picked;
  }

  /**
   * Sets work aside while another attempt holds its asset: whoever settles that one says so, or has died.
   * @param leaseEndsInMs when that attempt's lease ends
   * @param onOver called after a pause that grows from one time to the next, up to a second
   */
  park(work: Work, leaseEndsInMs: number, onOver: () => void): void {
    const pauseMs = Math.min(
      Math.max(leaseEndsInMs, 1),
      longestParkMs,
      firstParkMs * 2 ** work.timesLeased++,
    );
    this.#parked.set(work, setTimeout(onOver, pauseMs));
  }

  /** Takes work out of those that are parked. @returns whether it was among them */
  unpark(work: Work): boolean {
    clearTimeout(this.#parked.get(work));
    return this.#parked.delete(work);
  }

  /** Takes out everything. */
  clear(): Work[] {
    const parked = [...this.#parked.keys()];
    for (const work of parked) this.unpark(work);
    return [...this.#waiting.live.splice(0), ...this.#waiting.backfill.splice(0), ...parked];
  }
}
