/**
 * Remembers until when a key is refused. It never holds more than `atMost` keys, as strangers can make up any number.
 * Beyond that the key that was refused first is forgotten, and is refused again at its next failure.
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

  /** Returns how long the key is still refused, ms; 0 if it is not. */
  refusedForMs(key: string, nowMs: number): number {
    const untilMs = this.#untilMs.get(key);
    if (untilMs === undefined) return 0;
    if (untilMs <= nowMs) this.#untilMs.delete(key);
    return Math.max(0, untilMs - nowMs);
  }
}
