import type { ClientQueue } from './clientQueue.js';

/** The most places asked for in one turn: its script must not delay Redis for others. */
export const maxTakesPerTurn = 64;
/** How long places of a rate gather, to be taken together. */
const shortestRatePauseMs = 25;
const firstFullPauseMs = 20;
const firstOwnFailurePauseMs = 1000;
/**
 * The longest pauses. A live event is urgent, a backlog is not: it pauses longer while other processes hold all places,
 * and longest while it waits for its rate, whose next place is known unless an operator changes it. After own failures
 * no event is sent sooner for being live.
 */
const longestPauseMs = { live: 1000, full: 20_000, rate: 60_000, own_failure: 20_000 };
type PauseReason = 'full' | 'rate' | 'own_failure';

/**
 * Decides when a client's queue asks Redis for places, and for how many. After a refusal it asks again as attempts of
 * this process end, once the client's rate allows it, or after a growing pause if other processes hold all places.
 * After an own failure it pauses too, then asks for one place at a time until an attempt is made.
 */
export class TakePace {
  #maxTakes = maxTakesPerTurn;
  /** All places are taken. */
  #isFull = false;
  #fullPauseMs = 0;
  #ownFailurePauseMs = 0;
  #isClosed = false;
  #pause: { for: PauseReason; endsAt: number; timer: NodeJS.Timeout } | undefined;

  constructor(
    readonly queue: Pick<ClientQueue, 'hasLive'>,
    readonly onPauseOver: () => void,
  ) {}

  /** Whether no attempt was made since an own failure. */
  get isBackingOff(): boolean {
    return this.#ownFailurePauseMs > 0;
  }

  /** Whether the queue may ask before an attempt of this process ends. */
  mayTake(underWay: number): boolean {
    return !this.#isFull && this.maxTakes(0, underWay) > 0;
  }

  /** Returns how many places the queue may ask for once `ended` attempts have released theirs, while others are under way. */
  maxTakes(ended: number, underWay: number): number {
    if (this.#isClosed || this.#pause !== undefined) return 0;
    if (this.isBackingOff) return underWay === 0 ? 1 : 0;
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

  /**
   * Waits after an own failure, twice as long each time. Attempts that fail during a wait prolong none.
   * @returns how long it waits still, and whether the wait has just begun
   */
  backOff(): { inMs: number; isNew: boolean } {
    if (this.#pause?.for === 'own_failure')
      return { inMs: Math.max(Math.ceil(this.#pause.endsAt - performance.now()), 1), isNew: false };
    this.#stopPause();
    const wantedMs = Math.max(this.#ownFailurePauseMs * 2, firstOwnFailurePauseMs);
    const inMs = Math.min(wantedMs, longestPauseMs.own_failure);
    this.#ownFailurePauseMs = inMs;
    this.#pauseFor('own_failure', inMs);
    return { inMs, isNew: true };
  }

  /** Notes that an attempt of this process has released its place. @param wasMade whether its POST was made */
  noteAttemptEnd(wasMade: boolean): void {
    this.#fullPauseMs = 0;
    if (wasMade) this.#ownFailurePauseMs = 0;
    if (this.#pause?.for === 'full' || (wasMade && this.#pause?.for === 'own_failure')) this.#stopPause();
  }

  /** Shortens a long pause for a live event that has just been queued. */
  noteLiveEvent(): void {
    const pause = this.#pause;
    if (pause === undefined || pause.for === 'own_failure') return;
    if (pause.endsAt - performance.now() <= longestPauseMs.live) return;
    this.#stopPause();
    this.#pauseFor(pause.for, longestPauseMs.live);
  }

  /** Ends its questions for good. */
  close(): void {
    this.#isClosed = true;
    this.#stopPause();
  }

  #pauseFor(reason: PauseReason, wantedMs: number): void {
    // Looking through the queue pays off only for a long pause.
    const isLong = wantedMs > longestPauseMs.live && reason !== 'own_failure';
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
