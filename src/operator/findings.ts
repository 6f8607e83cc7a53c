/** What a check of `doctor` has found. */
export const levels = ['ok', 'warn', 'fail'] as const;
export type Level = (typeof levels)[number];

export type Finding = ReturnType<typeof finding>;

/**
 * @param check the name of the check: `<part> <what>`, such as `redis persistence`
 * @param found a sentence
 * @param todo what to do about it, unless the check is ok
 */
export const finding = (check: string, level: Level, found: string, todo = '') => {
  return { check, level, found, do: level === 'ok' ? null : todo };
};
