/** What stands still while an attempt waits for the service itself. */
export interface Pausable {
  pause(): void;
  resume(): void;
}

/** The time of one attempt, from its making: it runs out once, and stands still where the service keeps it waiting. */
export class Clock implements Pausable {
  #startedAtMs = performance.now();
  #pausedAtMs: number | undefined;
  #stoppedAtMs: number | undefined;
  #timer: NodeJS.Timeout;

  /** @param onEnd called once after `timeoutMs`, unless the clock was stopped before */
  constructor(
    readonly timeoutMs: number,
    readonly onEnd: () => void,
  ) {
    this.#timer = setTimeout(onEnd, timeoutMs);
  }

  /** What has passed until now, or until it was stopped. */
  get milliseconds(): number {
    const endMs = this.#stoppedAtMs ?? this.#pausedAtMs ?? performance.now();
    return Math.round(endMs - this.#startedAtMs);
  }

  pause(): void {
    if (this.#stoppedAtMs !== undefined || this.#pausedAtMs !== undefined) return;
    clearTimeout(this.#timer);
    this.#pausedAtMs = performance.now();
  }

  resume(): void {
    if (this.#stoppedAtMs !== undefined || this.#pausedAtMs === undefined) return;
    const nowMs = performance.now();
    const ranMs = this.#pausedAtMs - this.#startedAtMs;
    this.#startedAtMs = nowMs - ranMs;
    this.#pausedAtMs = undefined;
    this.#timer = setTimeout(this.onEnd, Math.max(this.timeoutMs - ranMs, 0));
  }

  stop(): void {
    if (this.#stoppedAtMs !== undefined) return;
    clearTimeout(this.#timer);
    this.#stoppedAtMs = this.#pausedAtMs ?? performance.now();
  }
}
