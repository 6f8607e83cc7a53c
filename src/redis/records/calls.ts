/** How many calls the processes have answered, and how many failed by us: a hash for each minute, in which every process counts. */
import { type Db, nowOf } from '../connection/db.js';

const minuteMs = 60_000;
const flushEveryMs = 2_000;
const keptSeconds = 900;
/** `readCalls` looks at so many minutes, the present one included. */
export const callMinutes = 3;

/** Counts the calls of a process in memory, and adds them to Redis every few seconds. @param ended stops counting */
export function countCalls(db: Db, ended?: AbortSignal): (isFailed: boolean) => void {
  let counted = new Map<number, { total: number; failed: number }>();

  function add(minute: number, total: number, failed: number): void {
    const known = counted.get(minute) ?? { total: 0, failed: 0 };
    counted.set(minute, { total: known.total + total, failed: known.failed + failed });
  }

  async function flush(): Promise<void> {
    const writing = counted;
    counted = new Map();
    for (const [minute, { total, failed }] of writing) {
      const key = db.global.calls(minute);
      try {
        const counts = [db.redis.hincrby(key, 'total', total), db.redis.hincrby(key, 'failed', failed)];
        await Promise.all([...counts, db.redis.expire(key, keptSeconds)]);
      } catch {
        // While Redis refuses, the calls that fail are the news: a few may be counted twice.
        if (nowOf(db) - minute * minuteMs < keptSeconds * 1000) add(minute, total, failed);
      }
    }
  }

  const timer = setInterval(() => void flush(), flushEveryMs);
  timer.unref();
  ended?.addEventListener('abort', () => clearInterval(timer));
  return (isFailed) => add(Math.floor(nowOf(db) / minuteMs), 1, Number(isFailed));
}

/** Returns the counts of the last minutes, over all processes. */
export async function readCalls(db: Db): Promise<{ total: number; failed: number }> {
  const now = Math.floor(nowOf(db) / minuteMs);
  const minutes = Array.from({ length: callMinutes }, (_, i) => db.global.calls(now - i));
  const read = await Promise.all(minutes.map((key) => db.redis.hmget(key, 'total', 'failed')));
  const sum = (field: number) => read.reduce((all, counts) => all + Number(counts[field] ?? 0), 0);
  return { total: sum(0), failed: sum(1) };
}
