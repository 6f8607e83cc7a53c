/**
 * Counts by key, in windows of one second that begin with a key's first count. The keys are known (accounts),
 * so none is ever removed. It needs no promise or timer for each count, unlike rate-limiter-flexible.
 */
export class SecondWindow {
  readonly #counts = new Map<string, { endsAtMs: number; count: number }>();

  constructor(readonly atMost: number) {}

  /** Returns how long until another count is allowed, ms; 0 if it is now. */
  fullForMs(key: string, nowMs: number): number {
    const window = this.#counts.get(key);
    return window !== undefined && window.count >= this.atMost ? Math.max(0, window.endsAtMs - nowMs) : 0;
  }

  /** Counts one. Returns false if the limit was reached. */
  count(key: string, nowMs: number): boolean {
    let window = this.#counts.get(key);
    if (window === undefined || window.endsAtMs <= nowMs) {
      window = { endsAtMs: nowMs + 1000, count: 0 };
      this.#counts.set(key, window);
    }
    if (window.count >= this.atMost) return false;
    window.count++;
    return true;
  }
}
