/**
 * A hash for each minute, in which every process counts: calls (`total`), those that failed by us (`failed`), starts of workflows that
 * failed twice (`starts`), starts that Temporal refused for good by reason (`refused_starts:invalid`), other calls that it refuses
 * (`refused_calls:poll:right`), failed tasks by workflow
 * (`failed_tasks:<id>`), own failures by cause.
 */
import { type Db, nowOf } from '../connection/db.js';

export const refusedStarts = 'refused_starts:';
/** Then the call, a colon, and the reason. */
export const refusedCalls = 'refused_calls:';
export const failedTasks = 'failed_tasks:';

const minuteMs = 60_000;
const flushEveryMs = 2_000;
const keptSeconds = 900;
/** `readMinutes` looks at so many minutes, the present one included. */
export const minutesRead = 3;

/** Returns the workflows of which a task failed while the minutes are kept: Temporal tries one again after 12 minutes at most. */
export async function readFailedTasks(db: Db): Promise<string[]> {
  const counts = Object.keys(await readMinutes(db, keptSeconds / 60));
  return counts.flatMap((field) => (field.startsWith(failedTasks) ? field.slice(failedTasks.length) : []));
}

/** Counts in memory, and adds the counts to Redis every few seconds. */
export function countMinutes(db: Db) {
  let counted = new Map<string, number>();
  const add = (name: string, by: number) => counted.set(name, (counted.get(name) ?? 0) + by);

  async function flush(): Promise<void> {
    const writing = counted;
    counted = new Map();
    for (const [name, by] of writing) {
      const [minute, field = ''] = name.split(/ (.*)/);
      const key = db.global.calls(Number(minute));
      try {
        await Promise.all([db.redis.hincrby(key, field, by), db.redis.expire(key, keptSeconds)]);
      } catch {
        // While Redis refuses, the calls that fail are the news: a few may be counted twice.
        if (nowOf(db) - Number(minute) * minuteMs < keptSeconds * 1000) add(name, by);
      }
    }
  }

  const timer = setInterval(() => void flush(), flushEveryMs).unref();
  return {
    count: (field: string): unknown => add(`${Math.floor(nowOf(db) / minuteMs)} ${field}`, 1),
    close: () => clearInterval(timer),
  };
}

/** Returns the counts of the last minutes by field, over all processes. */
export async function readMinutes(db: Db, minutes = minutesRead): Promise<Record<string, number>> {
  const now = Math.floor(nowOf(db) / minuteMs);
  const keys = Array.from({ length: minutes }, (_, i) => db.global.calls(now - i));
  const sums: Record<string, number> = {};
  for (const counts of await Promise.all(keys.map((key) => db.redis.hgetall(key))))
    for (const [field, by] of Object.entries(counts)) sums[field] = (sums[field] ?? 0) + Number(by);
  return sums;
}
