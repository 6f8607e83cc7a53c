/** A budget of starts per second; the starts of up to one second may be saved for a burst. */
export class StartBudget {
  readonly #burst: number;
  #left: number;
  #countedAt = performance.now();

  constructor(readonly perSecond: number) {
    this.#burst = Math.max(1, perSecond);
    this.#left = this.#burst;
  }

  /** Takes one start. @returns false if none is left */
  take(): boolean {
    this.#count();
    if (this.#left < 1) return false;
    this.#left--;
    return true;
  }

  /** Gives back a start that was taken and is not needed. */
  giveBack(): void {
    this.#left++;
  }

  /** Returns when the next start can be taken (ms); below 0 if it can be taken now. */
  nextInMs(): number {
    this.#count();
    return ((1 - this.#left) / this.perSecond) * 1000;
  }

  #count(): void {
    const now = performance.now();
    this.#left = Math.min(this.#burst, this.#left + ((now - this.#countedAt) / 1000) * this.perSecond);
    this.#countedAt = now;
  }
}
