export type Level = 'ok' | 'warn' | 'fail';

/** The result of one check. */
export interface Finding {
  /** The name of the check: `<part> <what>`, such as `redis persistence`. */
  check: string;
  level: Level;
  /** The finding, as a sentence. */
  found: string;
  /** What to do about it; absent if the check is ok. */
  todo?: string;
}

const problem =
  (level: 'warn' | 'fail') =>
  (check: string, found: string, todo: string): Finding => ({ check, level, found, todo });

export const ok = (check: string, found: string): Finding => ({ check, level: 'ok', found });
export const warn = problem('warn');
export const fail = problem('fail');
