import { type ClaimableEvent, claimAgain } from '../redis/owed/claim.js';
import {
  noteReclaimed,
  noteReclaimFailures,
  reclaimedAllUntil,
  reclaimedAmong,
  reclaimedUntil,
} from '../redis/sweep/reclaimed.js';
import { type EnrichmentRun, enrichmentRuns, eventsOf } from '../temporal/enrichmentRuns.js';
import type { ActivityDeps } from './deps.js';

/** Temporal lists a workflow some time after it closed: each sweep searches from this long before the last one. */
const overlapMs = 300_000;
/** How long it works; the next sweep continues with the rest. */
const budgetMs = 60_000;
/** Workflows whose events are claimed at the same time. */
const concurrency = 20;

export interface Reclaimed {
  /** Workflows whose events were read. */
  workflows: number;
  /** Events that nothing had claimed before. */
  events: number;
  /** Workflows whose events could not all be claimed; the next sweep tries again. */
  failed: number;
}

/**
 * Claims the events of enrichment workflows that were terminated, cancelled, failed or timed out since the last sweep.
 * Such a workflow may have ended before the claim of its accepted events. A claim is safe to repeat, so it does
 * not matter which events had been claimed. Catch-up delivers them.
 */
export async function reclaimEvents(deps: ActivityDeps, heartbeat: () => void): Promise<Reclaimed> {
  const { db } = deps;
  const began = Date.now();
  const until = await reclaimedUntil(db);
  const condition = [
    "ExecutionStatus IN ('Terminated', 'Canceled', 'Failed', 'TimedOut')",
    ...(until === undefined ? [] : [`CloseTime > '${new Date(until - overlapMs).toISOString()}'`]),
  ].join(' AND ');
  const sum: Reclaimed = { workflows: 0, events: 0, failed: 0 };
  for await (const page of enrichmentRuns(deps.temporal, deps.taskQueue, condition)) {
    const done = await reclaimedAmong(
      db,
      page.map((run) => run.runId),
    );
    const runs = page.filter((run) => !done.has(run.runId));
    for (let i = 0; i < runs.length; i += concurrency) {
      if (Date.now() > began + budgetMs) return sum;
      heartbeat();
      await reclaimRuns(deps, runs.slice(i, i + concurrency), sum);
    }
  }
  await noteReclaimFailures(db, sum.failed);
  if (sum.failed === 0) await reclaimedAllUntil(db, began, overlapMs);
  return sum;
}

async function reclaimRuns(deps: ActivityDeps, runs: EnrichmentRun[], sum: Reclaimed): Promise<void> {
  const owed = new Set<string>();
  const results = await Promise.allSettled(
    runs.map(async (run) => {
      const events = (await eventsOf(deps.temporal, run)) ?? [];
      const claimed = await claimAll(deps, events, owed);
      if (claimed > 0) {
        deps.log.warn(
          { workflow_id: run.workflowId, run_id: run.runId, events: claimed },
          'a workflow closed before the claim of its events: they are claimed now',
        );
      }
      return { events, claimed };
    }),
  );
  // A claim counts as done once it is on Redis' disk.
  await Promise.all([...owed].map((clientToken) => deps.durability.reached(clientToken)));
  await Promise.all([...owed].map((clientToken) => deps.catchUps.wake(clientToken, 0)));
  const done: EnrichmentRun[] = [];
  for (const [i, result] of results.entries()) {
    const run = runs[i] as EnrichmentRun;
    sum.workflows++;
    if (result.status === 'rejected') {
      sum.failed++;
      deps.log.error(
        { err: result.reason, workflow_id: run.workflowId },
        'the events of a workflow could not be claimed; the next sweep tries again',
      );
      continue;
    }
    const { events, claimed } = result.value;
    sum.events += claimed;
    // Redis may have restarted meanwhile and lost the claim: the next sweep checks again.
    if (claimed > 0 && (await claimAll(deps, events, owed)) > 0) sum.failed++;
    else done.push(run);
  }
  await noteReclaimed(deps.db, done);
}

/**
 * Claims events, and adds the clients that are owed one to `owed`.
 * @returns how many of them were not claimed before
 * @throws the first failure, after all other claims
 */
async function claimAll(deps: ActivityDeps, events: ClaimableEvent[], owed: Set<string>): Promise<number> {
  const claims = await Promise.allSettled(
    events.map(async (event) => {
      const claim = await claimAgain(deps.db, event);
      if (claim.kind === 'claimed') owed.add(event.clientToken);
      if (claim.kind === 'claimed' && claim.supersedes) deps.metrics.ended('superseded');
      if (claim.kind === 'not_needed') deps.metrics.ended('not_needed');
      return claim.kind === 'claimed' && !claim.again;
    }),
  );
  const broken = claims.find((c) => c.status === 'rejected');
  if (broken?.status === 'rejected') throw broken.reason;
  return claims.filter((c) => c.status === 'fulfilled' && c.value).length;
}
