/** Wakes a sleeper early. */
export class Bell {
  #wake = (): void => undefined;

  readonly ring = (): void => this.#wake();

  /** Resolves when the bell rings next, at `at` (ms since the epoch) at the latest. */
  sleepUntil(at: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, Math.max(0, at - Date.now()));
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}
