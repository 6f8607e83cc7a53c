export type Level = 'ok' | 'warn' | 'fail';

/** One thing that was looked at. */
export interface Finding {
  /** What was looked at: `<part> <what>`, such as `redis persistence`. */
  check: string;
  level: Level;
  /** What was found, as a sentence. */
  found: string;
  /** What to do about it; absent where all is well. */
  todo?: string;
}

export const ok = (check: string, found: string): Finding => ({ check, level: 'ok', found });
export const warn = (check: string, found: string, todo: string): Finding => ({
  check,
  level: 'warn',
  found,
  todo,
});
export const fail = (check: string, found: string, todo: string): Finding => ({
  check,
  level: 'fail',
  found,
  todo,
});

/** Whether a version such as `7.2.4` is at least that one. */
export function isAtLeast(version: string, wanted: readonly [number, number]): boolean {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  return major > wanted[0] || (major === wanted[0] && minor >= wanted[1]);
}
