/**
 * Remembers until when somebody is refused, by key. It never holds more than `atMost` keys: a stranger chooses how many there
 * are. The one that was refused first is then forgotten, and is refused again at its next failure.
 */
export class RefusedUntil {
  readonly #untilMs = new Map<string, number>();

  constructor(readonly atMost: number) {}

  get size(): number {
    return this.#untilMs.size;
  }

  refuse(key: string, untilMs: number): void {
    this.#untilMs.delete(key);
    this.#untilMs.set(key, untilMs);
    for (const oldest of this.#untilMs.keys()) {
      if (this.#untilMs.size <= this.atMost) break;
      this.#untilMs.delete(oldest);
    }
  }

  /** Returns for how long still, ms; 0 for who is not refused. */
  refusedForMs(key: string, nowMs: number): number {
    const untilMs = this.#untilMs.get(key);
    if (untilMs === undefined) return 0;
    if (untilMs <= nowMs) this.#untilMs.delete(key);
    return Math.max(0, untilMs - nowMs);
  }
}
