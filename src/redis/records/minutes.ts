/**
 * A hash for each minute, in which every process counts: calls (`total`), those that failed by us (`failed`), starts of workflows that
 * failed twice (`starts`), starts that Temporal refused for good by reason (`refused_starts:invalid`), other calls that it refuses
 * (`refused_calls:poll:right`), failed tasks by workflow
 * (`failed_tasks:<id>`), own failures by cause.
 */
import { mapInPages } from '../../promises.js';
import { type Db, nowOf } from '../connection/db.js';

export const refusedStarts = 'refused_starts:';
/** Then the call, a colon, and the reason. */
export const refusedCalls = 'refused_calls:';
export const failedTasks = 'failed_tasks:';

const minuteMs = 60_000;
const keptSeconds = 900;
/** `readMinutes` looks at so many minutes, the present one included. */
export const minutesRead = 3;

/** Returns the workflows of which a task failed while the minutes are kept: Temporal tries one again after 12 minutes at most. */
export async function readFailedTasks(db: Db): Promise<string[]> {
  const counts = Object.keys(await readMinutes(db, keptSeconds / 60));
  return counts.flatMap((field) => (field.startsWith(failedTasks) ? field.slice(failedTasks.length) : []));
}

const hashesAtOnce = 500;

/**
 * Counts in memory, and adds the counts to hashes in Redis every few seconds, so that what is counted costs Redis nothing.
 * @param onError gets the counts of a hash of which it is unknown which were added
 */
export function countLater(
  db: Db,
  { everyMs, keptSeconds }: { everyMs: number; keptSeconds: number },
  onError: (err: unknown, key: string, counts: ReadonlyMap<string, number>) => void,
) {
  let counted = new Map<string, Map<string, number>>();
  async function flush(): Promise<void> {
    const hashes = [...counted];
    counted = new Map();
    await mapInPages(hashes, hashesAtOnce, ([key, counts]) =>
      Promise.all([
        ...[...counts].map(([field, by]) => db.redis.hincrby(key, field, by)),
        db.redis.expire(key, keptSeconds),
      ]).catch((err: unknown) => onError(err, key, counts)),
    );
  }
  const timer = setInterval(() => void flush(), everyMs).unref();
  return {
    add(key: string, field: string, by = 1): void {
      const counts = counted.get(key) ?? new Map<string, number>();
      counted.set(key, counts.set(field, (counts.get(field) ?? 0) + by));
    },
    /** Stops counting, and writes the counts that are not yet written. */
    async close(): Promise<void> {
      clearInterval(timer);
      await flush();
    },
  };
}

export function countMinutes(db: Db) {
  const { add, close } = countLater(db, { everyMs: 2000, keptSeconds }, (_, key, counts) => {
    const minute = Number(key.slice(key.lastIndexOf(':') + 1));
    if (nowOf(db) - minute * minuteMs >= keptSeconds * 1000) return;
    // While Redis refuses, the calls that fail are the news: a few may be counted twice.
    for (const [field, by] of counts) add(key, field, by);
  });
  return {
    count: (field: string): unknown => add(db.global.calls(Math.floor(nowOf(db) / minuteMs)), field),
    close,
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
