/**
 * Counts by key, in windows of one second that begin with a key's first count. What is counted is known (accounts),
 * so nothing is ever thrown away. Without a promise or a timer for each count, which rate-limiter-flexible needs.
 */
export class SecondWindow {
  readonly #counts = new Map<string, { endsAtMs: number; count: number }>();

  constructor(readonly atMost: number) {}

  /** Returns how long until there is room, ms; 0 where there is. */
  fullForMs(key: string, nowMs: number): number {
    const window = this.#counts.get(key);
    return window !== undefined && window.count >= this.atMost ? Math.max(0, window.endsAtMs - nowMs) : 0;
  }

  /** Counts one. Returns false where there was no room. */
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
