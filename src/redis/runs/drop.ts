import { mapInPages } from '../../mapInPages.js';
import type { Db } from '../connection/db.js';
import { runPipeline } from '../connection/pipeline.js';
import { holdRun } from './hold.js';
import { clientsOfRun } from './runs.js';

/** Clients freed at the same time: the event that begins a run may wait for the drop of the oldest one. */
const concurrency = 50;

/**
 * Drops a run: its counts, and the list of segments to forget. Its owed notifications are still delivered, but no longer
 * counted. Safe to repeat: the sweep finds an interrupted drop again.
 */
export async function dropRun(db: Db, runId: string): Promise<void> {
  const { run, runs, runClients, runProgress, openRuns, changedRuns } = db.global;
  for await (const page of clientsOfRun(db, runId)) {
    const free = { runId, state: 'active', version: Number.MAX_SAFE_INTEGER } as const;
    await mapInPages(page, concurrency, (clientToken) => holdRun(db, clientToken, free));
    const owed = db.redis.pipeline();
    for (const clientToken of page) owed.exists(db.client(clientToken).runOwed(runId));
    const isOwed = await runPipeline(owed);
    const unlinked = db.redis.pipeline();
    for (const [i, clientToken] of page.entries()) {
      // If the run has owed notifications here, its keys expire after the last of them has ended.
      const keys = db.client(clientToken);
      if (isOwed[i] !== 1) unlinked.unlink(keys.run(runId), keys.runKnown(runId));
    }
    await runPipeline(unlinked);
  }
  await db.redis.unlink(run(runId));
  await db.redis.unlink(runClients(runId));
  await db.redis.unlink(runProgress(runId));
  await db.redis.srem(openRuns, runId);
  await db.redis.srem(changedRuns, runId);
  await db.redis.zrem(runs, runId);
}
