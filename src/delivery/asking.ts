/**
 * When a client's attempts ask Redis for places, and for how many. What was refused is asked for again as attempts of
 * this process end, once the client's rate allows it, or after a growing pause where other processes hold the places.
 */

/** What one turn takes at most: its script must not hold up Redis for others. */
export const takenAtOnce = 64;
/** A rate's places gather for so long, and are taken together. */
const shortestRatePauseMs = 25;
const firstPauseMs = 20;
/** Somebody waits for a live event; a backlog has time, and knows when its rate has a place unless that is changed. */
const longestPauseMs = { live: 1000, full: 10_000, rate: 60_000 };

export class Asking {
  #most = takenAtOnce;
  /** All places are taken. */
  #isFull = false;
  #grownMs = 0;
  #pause: { for: 'full' | 'rate'; endsAt: number; timer: NodeJS.Timeout } | undefined;

  /** @param onPauseOver it may ask again */
  constructor(readonly onPauseOver: () => void) {}

  /** Whether it may ask before an attempt of this process ends. */
  get isAllowed(): boolean {
    return !this.#isFull && this.#pause === undefined;
  }

  /** For how many it may ask, `ended` attempts having let go of their places. */
  most(ended: number): number {
    if (this.#pause !== undefined) return 0;
    // One more than have become free: another process may have let go of places too.
    return this.#isFull ? ended + 1 : this.#most;
  }

  /** It asked for so many, of which `refused` found no place; for none, as nothing waited. */
  answered(wanted: number, refused: number): void {
    if (wanted === 0) {
      // Who comes next must ask: no attempt may be left whose end would.
      if (this.#pause === undefined) this.#isFull = false;
      return;
    }
    // The one too many says when to ask again.
    if (refused > 0) this.#most = Math.min(wanted - refused + 1, takenAtOnce);
    else {
      this.#isFull = false;
      this.#most = Math.min(Math.max(this.#most, wanted) * 2, takenAtOnce);
    }
  }

  /**
   * All places are taken, or it is not known whether one is free. Where this process has none of them, nobody here will
   * say when one is.
   */
  full(isAnyOurs: boolean, isLiveWaiting: () => boolean): void {
    this.#isFull = true;
    if (isAnyOurs || this.#pause !== undefined) return;
    this.#grownMs = Math.min(Math.max(this.#grownMs * 2, firstPauseMs), longestPauseMs.full);
    this.#pauseFor('full', this.#grownMs, isLiveWaiting);
  }

  /** The next place of the rate is free in `inMs`. */
  rate(inMs: number, isLiveWaiting: () => boolean): void {
    if (this.#pause === undefined) {
      this.#pauseFor('rate', Math.max(inMs, shortestRatePauseMs), isLiveWaiting);
    }
  }

  /** An attempt of this process has let go of its place. */
  attemptEnded(): void {
    this.#grownMs = 0;
    if (this.#pause?.for === 'full') this.#stopPause();
  }

  /** A live event has come to what waits. */
  liveCame(): void {
    const pause = this.#pause;
    if (pause === undefined || pause.endsAt - performance.now() <= longestPauseMs.live) return;
    this.#stopPause();
    this.#pauseFor(pause.for, longestPauseMs.live, () => true);
  }

  close(): void {
    this.#stopPause();
  }

  #pauseFor(reason: 'full' | 'rate', wantedMs: number, isLiveWaiting: () => boolean): void {
    // Looking through what waits is left out where it changes nothing.
    const isLong = wantedMs > longestPauseMs.live;
    const ms = Math.min(wantedMs, isLong && isLiveWaiting() ? longestPauseMs.live : longestPauseMs[reason]);
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
