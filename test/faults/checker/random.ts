/** Draws with a seed. */
export type Random = ReturnType<typeof createRandom>;

export function createRandom(seed: number) {
  let state = seed >>> 0;
  /** From 0 to 1 (mulberry32). */
  const unit = (): number => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
  return {
    between: (least: number, most: number): number => least + unit() * (most - least),
    isOnce: (share: number): boolean => unit() < share,
    one: <T>(of: readonly T[]): T => of[Math.floor(unit() * of.length)] as T,
    /** Draws a name, each as often as its number says. */
    weighted<K extends string>(weights: Record<K, number>): K {
      const names = Object.keys(weights) as K[];
      let left = unit() * names.reduce((sum, name) => sum + weights[name], 0);
      for (const name of names) {
        left -= weights[name];
        if (left < 0) return name;
      }
      return names[0] as K;
    },
  };
}
