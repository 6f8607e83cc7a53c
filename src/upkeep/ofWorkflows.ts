import { isNotificationId } from '../ids.js';
import type { ClaimedEvent } from '../redis/owed/claim.js';
import { type OwedSizes, owedSizes } from '../redis/owed/owedWalk.js';
import { type Standing, standingsOf } from '../redis/owed/standing.js';
import { type EnrichmentRun, enrichmentRuns, eventsOf } from '../temporal/enrichmentRuns.js';
import { notificationOf } from '../temporal/workflowIds.js';
import { disagreementOf, isAgedOut } from './judge.js';
import { namesOf } from './ofClient.js';
import type { Problem } from './problem.js';
import { type Walk, walkClient } from './walk.js';

/** Histories read at the same time. */
const concurrency = 8;

/**
 * Accounts for the events of every enrichment workflow that Temporal still has: each must be in Redis. Events that Redis
 * lists are already counted there. A workflow of one event has the notification in its id: its history is read only
 * if that notification has no record. The history of a group is always read.
 */
export async function accountForWorkflows(walk: Walk): Promise<void> {
  for await (const page of pages(walk)) {
    walk.looked.workflows += page.length;
    const apart = await withoutRecord(walk, page);
    for (let i = 0; i < apart.length; i += concurrency) {
      await Promise.all(apart.slice(i, i + concurrency).map((run) => accountForRun(walk, run)));
    }
  }
}

async function* pages(walk: Walk): AsyncGenerator<EnrichmentRun[]> {
  const conditions = [
    ...(walk.since > 0 ? [`StartTime >= '${new Date(walk.since).toISOString()}'`] : []),
    // A large group's list of clients does not fit into its search attribute.
    ...(walk.clientToken === undefined
      ? []
      : [`(ClientToken = '${walk.clientToken}' OR ClientToken IS NULL)`]),
  ];
  await walk.pace();
  for await (const page of enrichmentRuns(
    walk.temporal,
    walk.taskQueue,
    conditions.join(' AND ') || undefined,
  )) {
    yield page;
    await walk.pace();
  }
}

/** Accounts for workflows of one event that has a record; returns the other workflows. */
async function withoutRecord(walk: Walk, runs: EnrichmentRun[]): Promise<EnrichmentRun[]> {
  const rest: EnrichmentRun[] = [];
  const byClient = new Map<string, { run: EnrichmentRun; notificationId: string }[]>();
  for (const run of runs) {
    const named = notificationOf(run.workflowId);
    if (named === undefined || !isNotificationId(named.notificationId)) {
      rest.push(run);
      continue;
    }
    const { clientToken, notificationId } = named;
    byClient.set(clientToken, [...(byClient.get(clientToken) ?? []), { run, notificationId }]);
  }
  for (const [clientToken, singles] of byClient) {
    await walkClient(walk, clientToken, async () => {
      const { standings, now } = await standingsOf(
        walk.db,
        clientToken,
        singles.map(({ notificationId }) => ({ notificationId })),
      );
      singles.forEach(({ run }, i) => {
        const standing = standings[i] as Standing;
        if (standing.state === undefined) rest.push(run);
        else {
          walk.looked.events++;
          accountForRecord(walk, clientToken, run, standing, now);
        }
      });
    });
  }
  return rest;
}

async function accountForRun(walk: Walk, run: EnrichmentRun): Promise<void> {
  await walk.pace();
  walk.looked.histories++;
  const events = await eventsOf(walk.temporal, run);
  // Deleted since it was listed.
  if (events === undefined) return;
  const byClient = new Map<string, ClaimedEvent[]>();
  for (const event of events) {
    if (walk.clientToken !== undefined && event.clientToken !== walk.clientToken) continue;
    byClient.set(event.clientToken, [...(byClient.get(event.clientToken) ?? []), event]);
  }
  for (const [clientToken, ofClient] of byClient) {
    walk.looked.events += ofClient.length;
    await walkClient(walk, clientToken, async () => {
      const { standings, now } = await standingsOf(walk.db, clientToken, ofClient);
      const sizes = standings.some((s) => s.state === undefined)
        ? await owedSizes(walk.db, clientToken)
        : undefined;
      ofClient.forEach((event, i) => {
        const standing = standings[i] as Standing;
        if (standing.state !== undefined) accountForRecord(walk, clientToken, run, standing, now);
        else if (sizes !== undefined) accountWithoutRecord(walk, run, event, standing, sizes, now);
      });
    });
  }
}

function accountForRecord(
  walk: Walk,
  clientToken: string,
  run: EnrichmentRun,
  standing: Standing,
  now: number,
): void {
  const problem = disagreementOf(standing, now, walk.settings);
  if (problem !== undefined) {
    walk.tally.blame({ ...namesOf(clientToken, standing), workflowId: run.workflowId, problem });
  } else if (!standing.listed && standing.state !== undefined && standing.state !== 'waiting') {
    walk.tally.count(standing.state);
  }
}

function accountWithoutRecord(
  walk: Walk,
  run: EnrichmentRun,
  event: ClaimedEvent,
  standing: Standing,
  sizes: OwedSizes,
  now: number,
): void {
  const verdict = verdictOf(run, event, standing, sizes, now);
  if (verdict === 'listed') return;
  if (verdict === 'in_progress' || verdict === 'aged_out') walk.tally.count(verdict);
  else
    walk.tally.blame({
      ...namesOf(event.clientToken, standing),
      workflowId: run.workflowId,
      problem: verdict,
    });
}

function verdictOf(
  run: EnrichmentRun,
  event: ClaimedEvent,
  standing: Standing,
  sizes: OwedSizes,
  now: number,
): Problem | 'in_progress' | 'aged_out' | 'listed' {
  if (standing.owed) return 'owed_without_record';
  if (isAgedOut(event.acceptedAt, now)) return standing.listed ? 'listed' : 'aged_out';
  if (standing.listed) return 'record_missing';
  if (sizes.listed >= maxListed && event.acceptedAt <= sizes.oldestListedAt) return 'aged_out';
  if (standing.lastClaim) return 'record_missing';
  if (run.closedAt === undefined) return 'in_progress';
  return standing.claim >= event.claim ? 'record_missing' : 'never_claimed';
}

/** Listed notifications of one client; further ones displace the oldest (contract, section 5). */
const maxListed = 10_000;
