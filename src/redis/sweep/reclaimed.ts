/** How far the sweep has searched for enrichment workflows that closed too early. */
import type { Db } from '../connection/db.js';
import { runPipeline } from '../connection/pipeline.js';

/** The events of every such workflow that closed before this time (ms) are claimed; undefined: no search was made yet. */
export async function reclaimedUntil(db: Db): Promise<number | undefined> {
  const until = await db.redis.get(db.global.reclaimedUntil);
  return until === null ? undefined : Number(until);
}

/** Returns the runs whose events have already been claimed. */
export async function reclaimedAmong(db: Db, runIds: readonly string[]): Promise<Set<string>> {
  if (runIds.length === 0) return new Set();
  const scores = await db.redis.zmscore(db.global.reclaimedRuns, ...runIds);
  return new Set(runIds.filter((_, i) => scores[i] !== null));
}

export async function noteReclaimed(
  db: Db,
  runs: readonly { runId: string; closedAt?: number }[],
): Promise<void> {
  if (runs.length === 0) return;
  await db.redis.zadd(db.global.reclaimedRuns, ...runs.flatMap((run) => [run.closedAt ?? 0, run.runId]));
}

/** The next search begins `overlapMs` before `untilMs`; workflows that closed earlier need not be remembered. */
export async function reclaimedAllUntil(db: Db, untilMs: number, overlapMs: number): Promise<void> {
  await runPipeline(
    db.redis
      .pipeline()
      .set(db.global.reclaimedUntil, untilMs)
      .zremrangebyscore(db.global.reclaimedRuns, '-inf', untilMs - overlapMs),
  );
}

/** Workflows whose events could not be claimed at the last try: each counts as unaccounted for. */
export async function noteReclaimFailures(db: Db, failed: number): Promise<void> {
  await db.redis.set(db.global.reclaimFailed, failed);
}
