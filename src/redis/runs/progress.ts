/** Keeps the counts of a run at earlier moments, further apart the longer the run takes. */
import { type Db, nowOf } from '../connection/db.js';
import { announcedMs } from './announce.js';
import type { RunCounts } from './runs.js';

export interface Progress extends RunCounts {
  /** ms */
  at: number;
}

const shortestPauseMs = 55_000;
/** A run of 14 days has some 220 moments, one of 60 days 260. */
const momentsAtMost = 300;

/** Returns random runs whose counts may still change. */
export async function someOpenRuns(db: Db, limit: number): Promise<string[]> {
  return await db.redis.srandmember(db.global.openRuns, limit);
}

/** Tells whether it is time for another moment: a minute after the last one, then a thirtieth of the run's duration so far. */
export async function isProgressDue(db: Db, runId: string, firstEventAt: number): Promise<boolean> {
  const last = await db.redis.lindex(db.global.runProgress(runId), -1);
  if (last === null) return true;
  const { at } = JSON.parse(last) as Progress;
  return nowOf(db) - at >= Math.max(shortestPauseMs, (at - firstEventAt) / 30);
}

/** Records the counts of a run now. The last record is made after its last notification ended and no events arrive any more. */
export async function noteProgress(db: Db, runId: string, counts: RunCounts): Promise<void> {
  const key = db.global.runProgress(runId);
  await db.redis.rpush(key, JSON.stringify({ at: nowOf(db), ...counts }));
  await db.redis.ltrim(key, -momentsAtMost, -1);
  const announcedAt = Number((await db.redis.zscore(db.global.runs, runId)) ?? 0);
  const isOver = counts.owed === 0 && nowOf(db) - announcedAt > 2 * announcedMs;
  if (isOver) await db.redis.srem(db.global.openRuns, runId);
}

/** Returns the moments, the oldest first. */
export async function progressOf(db: Db, runId: string): Promise<Progress[]> {
  const lines = await db.redis.lrange(db.global.runProgress(runId), '0', '-1');
  return lines.map((line) => JSON.parse(line) as Progress);
}
