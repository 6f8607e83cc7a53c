/** Reads the state and the settings of a Redis. */
import type { Redis } from 'ioredis';

export type Values = Record<string, string>;

/** Returns the fields of `INFO`: of one section, or of the default ones. */
export async function readInfo(redis: Redis, section?: string): Promise<Values> {
  return fieldsOf(section === undefined ? await redis.info() : await redis.info(section));
}

/** Returns the fields of a text such as the answers of `INFO` and `CLUSTER INFO`: `name:value` a line. */
export function fieldsOf(text: string): Values {
  const lines = text.split('\r\n').filter((line) => line.includes(':'));
  return Object.fromEntries(
    lines.map((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 1)]),
  );
}

/** Returns the settings that match a pattern; undefined if CONFIG is forbidden, as on managed servers. */
export async function readSettings(redis: Redis, patterns: readonly string[]): Promise<Values | undefined> {
  try {
    const found: Values = {};
    for (const pattern of patterns) {
      const flat = (await redis.config('GET', pattern)) as string[];
      for (let i = 0; i + 1 < flat.length; i += 2) found[flat[i] as string] = flat[i + 1] as string;
    }
    return found;
  } catch (err) {
    if (err instanceof Error && /unknown command|NOPERM|not allowed/i.test(err.message)) return undefined;
    throw err;
  }
}
