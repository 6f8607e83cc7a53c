/** Measures the time of one attempt from its construction, and bounds it. */
export class Clock {
  readonly #startedAtMs = performance.now();
  readonly #timer: NodeJS.Timeout;
  #stoppedAtMs: number | undefined;

  /** @param onEnd called once after `timeoutMs`, unless the clock was stopped before */
  constructor(
    readonly timeoutMs: number,
    onEnd: () => void,
  ) {
    this.#timer = setTimeout(onEnd, timeoutMs);
  }

  /** Returns the time until now, or until the clock was stopped. */
  get milliseconds(): number {
    return Math.round((this.#stoppedAtMs ?? performance.now()) - this.#startedAtMs);
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.#stoppedAtMs ??= performance.now();
  }
}
