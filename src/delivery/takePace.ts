/** At most so many are taken in one turn: its script must not hold up Redis for others. */
export const maxTakesPerTurn = 64;
/** Places of a rate gather for so long, and are taken together. */
const shortestRatePauseMs = 25;
const firstFullPauseMs = 20;
/**
 * Somebody waits for a live event. A backlog has time: while other processes hold all places, and longer while it waits
 * for its rate, which says when it has a place unless an operator changes it.
 */
const longestPauseMs = { live: 1000, full: 20_000, rate: 60_000 };

/**
 * Says when a client's queue asks Redis for places, and for how many. After a refusal it asks again as attempts of this
 * process end, once the client's rate allows it, or after a growing pause where other processes hold all places.
 */
export class TakePace {
  #maxTakes = maxTakesPerTurn;
  /** All places are taken. */
  #isFull = false;
  #fullPauseMs = 0;
  #pause: { for: 'full' | 'rate'; endsAt: number; timer: NodeJS.Timeout } | undefined;

  constructor(
    readonly queue: { hasLive(): boolean },
    readonly onPauseOver: () => void,
  ) {}

  /** Whether the queue may ask before an attempt of this process ends. */
  get mayTake(): boolean {
    return !this.#isFull && this.#pause === undefined;
  }

  /** Returns for how many the queue may ask once `ended` attempts have let go of their places. */
  maxTakes(ended: number): number {
    if (this.#pause !== undefined) return 0;
    // One more than have become free: another process may have let go of places too.
    return this.#isFull ? ended + 1 : this.#maxTakes;
  }

  /** Notes that the queue asked for `wanted` places and found none for `refused` of them. */
  noteAnswer(wanted: number, refused: number): void {
    if (wanted === 0) {
      // Nothing waited. Whoever comes next must ask: perhaps no attempt is left whose end would.
      if (this.#pause === undefined) this.#isFull = false;
    } else if (refused > 0) {
      // The one too many says when to ask again.
      this.#maxTakes = Math.min(wanted - refused + 1, maxTakesPerTurn);
    } else {
      this.#isFull = false;
      this.#maxTakes = Math.min(Math.max(this.#maxTakes, wanted) * 2, maxTakesPerTurn);
    }
  }

  /**
   * Waits until a place is free: until an attempt of this process ends, or, where it has none under way, for a pause.
   * Also for when Redis could not be asked.
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

  /** Notes that an attempt of this process has let go of its place. */
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
    // Only a long pause is worth looking through the queue.
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
