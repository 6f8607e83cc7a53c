/**
 * This process's share of a budget of starts per second; the starts of up to one second may be saved for a burst. All
 * processes have equal shares.
 */
export class StartBudget {
  #left: number;
  #countedAt = performance.now();

  /** @param processes how many share it now */
  constructor(
    readonly perSecond: number,
    readonly processes: () => number,
  ) {
    this.#left = this.#burst();
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
    return ((1 - this.#left) / this.#share()) * 1000;
  }

  #share(): number {
    return this.perSecond / this.processes();
  }

  #burst(): number {
    return Math.max(1, this.#share());
  }

  #count(): void {
    const now = performance.now();
    this.#left = Math.min(this.#burst(), this.#left + ((now - this.#countedAt) / 1000) * this.#share());
    this.#countedAt = now;
  }
}
