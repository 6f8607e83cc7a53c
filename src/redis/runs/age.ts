import { type Db, nowOf } from '../connection/db.js';
import { recordKeptMs } from '../connection/keys.js';

const dayMs = 86_400_000;

/** Lists runs that have had no event for as long as a notification is kept. */
export async function agedRuns(db: Db, limit: number): Promise<string[]> {
  const before = nowOf(db) - recordKeptMs;
  return await db.redis.zrangebyscore(db.global.runs, '-inf', before, 'LIMIT', 0, limit);
}

/** Keeps a run for another day: it still has owed notifications. */
export async function keepRunLonger(db: Db, runId: string): Promise<void> {
  await db.redis.zadd(db.global.runs, 'XX', nowOf(db) - recordKeptMs + dayMs, runId);
}
