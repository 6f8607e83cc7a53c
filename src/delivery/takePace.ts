import type { ClientQueue } from './clientQueue.js';

/** The most places asked for in one turn: its script must not delay Redis for others. */
export const maxTakesPerTurn = 64;
/** How long places of a rate gather, to be taken together. */
const shortestRatePauseMs = 25;
const firstFullPauseMs = 20;
/**
 * The longest pauses. A live event is urgent, a backlog is not: it pauses longer while other processes hold all places,
 * and longest while it waits for its rate, whose next place is known unless an operator changes it.
 */
const longestPauseMs = { live: 1000, full: 20_000, rate: 60_000 };

/**
 * Decides when a client's queue asks Redis for places, and for how many. After a refusal it asks again as attempts of
 * this process end, once the client's rate allows it, or after a growing pause if other processes hold all places.
 */
export class TakePace {
  #maxTakes = maxTakesPerTurn;
  /** All places are taken. */
  #isFull = false;
  #fullPauseMs = 0;
  #pause: { for: 'full' | 'rate'; endsAt: number; timer: NodeJS.Timeout } | undefined;

  constructor(
    readonly queue: Pick<ClientQueue, 'hasLive'>,
    readonly onPauseOver: () => void,
  ) {}

  /** Whether the queue may ask before an attempt of this process ends. */
  get mayTake(): boolean {
    return !this.#isFull && this.#pause === undefined;
  }

  /** Returns how many places the queue may ask for once `ended` attempts have released theirs. */
  maxTakes(ended: number): number {
    if (this.#pause !== undefined) return 0;
    // One more than have become free: another process may have released places too.
    return this.#isFull ? ended + 1 : this.#maxTakes;
  }

  /** Notes that the queue asked for `wanted` places and found none for `refused` of them. */
  noteAnswer(wanted: number, refused: number): void {
    if (wanted === 0) {
      // Nothing waited: let the next work ask. Perhaps no attempt is left whose end would ask for it.
      if (this.#pause === undefined) this.#isFull = false;
    } else if (refused > 0) {
      // Ask for one more than were granted: its refusal carries the time of the next place.
      this.#maxTakes = Math.min(wanted - refused + 1, maxTakesPerTurn);
    } else {
      this.#isFull = false;
      this.#maxTakes = Math.min(Math.max(this.#maxTakes, wanted) * 2, maxTakesPerTurn);
    }
  }

  /**
   * Waits until a place may be free: until an attempt of this process ends or, if it has none under way, for a pause.
   * Also used when Redis could not be asked.
   */
  waitForPlace(hasAttempts: boolean): void {
    this.#isFull = true;
    if (hasAttempts || this.#pause !== undefined) return;
    this.#fullPauseMs = Math.min(Math.max(this.#fullPauseMs * 2, firstFullPauseMs), longestPauseMs.full);
    this.#pauseFor('full', this.#fullPauseMs);
  }

  /** Waits until the client's rate has its next place. */
  waitForRate(inMs: number): void {
    if (this.#pause === undefined) this.#pauseFor('rate', Math.max(inMs, shortestRatePauseMs));
  }

  /** Notes that an attempt of this process has released its place. */
  noteAttemptEnd(): void {
    this.#fullPauseMs = 0;
    if (this.#pause?.for === 'full') this.#stopPause();
  }

  /** Shortens a long pause for a live event that has just been queued. */
  noteLiveEvent(): void {
    const pause = this.#pause;
    if (pause === undefined || pause.endsAt - performance.now() <= longestPauseMs.live) return;
    this.#stopPause();
    this.#pauseFor(pause.for, longestPauseMs.live);
  }

  close(): void {
    this.#stopPause();
  }

  #pauseFor(reason: 'full' | 'rate', wantedMs: number): void {
    // Looking through the queue pays off only for a long pause.
    const isLong = wantedMs > longestPauseMs.live;
    const longestMs = longestPauseMs[isLong && this.queue.hasLive() ? 'live' : reason];
    const ms = Math.min(wantedMs, longestMs);
    const timer = setTimeout(() => {
      this.#pause = undefined;
      this.#isFull = false;
      this.onPauseOver();
    }, ms);
    this.#pause = { for: reason, endsAt: performance.now() + ms, timer };
  }

  #stopPause(): void {
    clearTimeout(this.#pause?.timer);
    this.#pause = undefined;
  }
}
