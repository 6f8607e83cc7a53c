import type { Wanted } from '../redis/owed/turn.js';
import type { Work } from './work.js';

/** While both priorities wait, one place in this many goes to backfill. */
const backfillShare = 4;
/** At most this many events of each priority. */
const maxQueuedPerClient = 5_000;
const firstParkMs = 50;
export const longestParkMs = 1000;

export interface Picked {
  work: Work;
  /** Backfill whose turn has come: it may have any place of the client. */
  mayUseAll: boolean;
}

/**
 * The waiting work of one client, in the order of its arrival. Live events come before backfill, except for the share
 * of backfill. Work that waits for another attempt of its asset is parked separately.
 */
export class ClientQueue {
  readonly #waiting = { live: [] as Work[], backfill: [] as Work[] };
  readonly #parked = new Map<Work, NodeJS.Timeout>();
  #picks = 0;

  /** Work that waits for a place. */
  get length(): number {
    return this.#waiting.live.length + this.#waiting.backfill.length;
  }

  /** Whether no work waits, for a place or for another attempt. */
  get isEmpty(): boolean {
    return this.length === 0 && this.#parked.size === 0;
  }

  /** Whether the client has as many waiting events as it may. */
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

  /** Removes and returns the next works, at most `max`. */
  pick(max: number): Picked[] {
    const { live, backfill } = this.#waiting;
    const picked: Picked[] = [];
    while (picked.length < max) {
      const isBackfillsTurn = backfill.length > 0 && (live.length === 0 || this.#picks % backfillShare === 0);
      const work = isBackfillsTurn ? backfill.shift() : live.shift();
      if (work === undefined) break;
      if (this.length > 0) this.#picks++;
      picked.push({ work, mayUseAll: isBackfillsTurn && live.length > 0 });
    }
    return picked;
  }

  /**
   * Parks work while another attempt holds its asset. The end of that attempt is reported, or its holder has died.
   * @param leaseEndsInMs when that attempt's lease ends
   * @param onOver called after a pause that grows each time, up to a second
   */
  park(work: Work, leaseEndsInMs: number, onOver: () => void): void {
    const pauseMs = Math.min(
      Math.max(leaseEndsInMs, 1),
      longestParkMs,
      firstParkMs * 2 ** work.timesLeased++,
    );
    this.#parked.set(work, setTimeout(onOver, pauseMs));
  }

  /** Removes parked work. @returns whether it was parked */
  unpark(work: Work): boolean {
    clearTimeout(this.#parked.get(work));
    return this.#parked.delete(work);
  }

  /** Removes and returns all work. */
  clear(): Work[] {
    const parked = [...this.#parked.keys()];
    for (const work of parked) this.unpark(work);
    return [...this.#waiting.live.splice(0), ...this.#waiting.backfill.splice(0), ...parked];
  }
}

/** Returns how to ask for a place of a picked work. */
export function wantedOf({ work: { delivery, mode }, mayUseAll }: Picked): Wanted {
  const { platformId, notificationId, event } = delivery;
  return { platformId, notificationId, mode, ...(event && { claim: event.claim }), mayUseAll };
}
