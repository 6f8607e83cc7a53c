import { Context } from '@temporalio/activity';
import { mapInPages } from '../src/mapInPages.js';
import { forgetOwedClient, type OwedOverview, owedClients, owedOverview } from '../src/redis/owed/owed.js';
import { getAccount } from '../src/redis/records/accounts.js';
import { getClient } from '../src/redis/records/clients.js';
import { setHeld } from '../src/redis/records/endpoint.js';
import { countBroken } from '../src/redis/sweep/brokenClients.js';
import { noteCounted, noteSweepEnd } from '../src/redis/sweep/counts.js';
import { countEndpoints } from '../src/redis/sweep/endpointCounts.js';
import { unaccountedNow } from '../src/redis/sweep/findings.js';
import { accountForClient, accountForSome } from '../src/upkeep/account.js';
import { besideOthers, keepAsBroken, lookAgainAtBroken } from '../src/upkeep/brokenClients.js';
import { clearDeletedClients } from '../src/upkeep/deletions.js';
import type { ActivityDeps } from '../src/upkeep/deps.js';
import { pickedUpWithinMs } from '../src/upkeep/judge.js';
import { readWhatItIs } from '../src/upkeep/ofClient.js';
import { reclaimEvents } from '../src/upkeep/reclaim.js';
import { tellOperatorsChanges } from '../src/upkeep/tellOperatorsChanges.js';

/** What waits in an engine's queue is somebody's: only what is overdue, or owed, for so long is looked after. */
const overdueMs = 60_000;
/** Since the last plan of a catch-up that is at work. */
const idleMs = 45_000;
/** Clients looked at side by side: one after the other, a busy server took 0.2 s for each catch-up that was started. */
const atOnce = 20;
/** Notifications looked at of a client whose keys were broken. */
const ofBrokenClient = 1000;

export interface Swept {
  looked: number;
  started: number;
  replaced: number;
  /** Events of workflows that closed before their claim, claimed now. */
  reclaimed: number;
}

/**
 * Finds what nobody works on: owed clients without catch-up, events whose workflow closed before its claim, deletions that
 * broke off. Then looks at some of what there is, whether it is accounted for. What operators changed is told on the way,
 * and how much there is of everything is written down for metrics.
 */
export async function sweepOwedClients(deps: ActivityDeps): Promise<Swept> {
  const context = Context.current();
  await lookAgainAtBroken(deps, (clientToken) => {
    context.heartbeat();
    return isInOrder(deps, clientToken);
  });
  const counts = await superviseCatchUps(deps, (soFar) => context.heartbeat(soFar));
  await tellOperatorsChanges(deps).catch((err: unknown) =>
    deps.log.error({ err }, 'what operators changed could not be told'),
  );
  const reclaimed = await reclaimEvents(deps, () => context.heartbeat(counts));
  await clearDeletedClients(deps, () => context.heartbeat(counts));
  await accountForSome(deps, () => context.heartbeat(counts));
  const [unaccounted, brokenClients] = await Promise.all([unaccountedNow(deps.db), countBroken(deps.db)]);
  await noteSweepEnd(deps.db, { unaccounted, brokenClients });
  return { ...counts, reclaimed: reclaimed.events };
}

/**
 * Compares the clients that are owed something with the running catch-ups; starts what is missing and replaces what
 * is overdue and does nothing. Also mends the hold of clients whose account was disabled or enabled half-way.
 */
async function superviseCatchUps(
  deps: ActivityDeps,
  heartbeat: (counts: unknown) => void,
): Promise<{ looked: number; started: number; replaced: number }> {
  const running = await deps.catchUps.running();
  const counts = { looked: 0, started: 0, replaced: 0 };
  const sum = { owed: 0, owedClients: 0, overdueClients: 0 };
  const supervise = async (clientToken: string): Promise<void> => {
    // Each: a page of 500 clients may take a busy Redis longer than the server waits for a heartbeat.
    heartbeat(counts);
    counts.looked++;
    let overview: OwedOverview | undefined;
    await besideOthers(deps, clientToken, async () => {
      overview = await lookAt(deps, clientToken);
    });
    if (overview === undefined || overview.owed === 0) return;
    sum.owed += overview.owed;
    sum.owedClients++;
    if (overview.overdueMs > pickedUpWithinMs) sum.overdueClients++;
    const done = await startWhatIsMissing(deps, clientToken, overview, running.has(clientToken));
    if (done !== undefined) counts[done]++;
  };
  for await (const page of owedClients(deps.db)) await mapInPages(page, atOnce, supervise);
  const endpoints = await countEndpoints(deps.db, {
    page: () => heartbeat(counts),
    broken: (clientToken, err) => keepAsBroken(deps, clientToken, { err }),
  });
  await noteCounted(deps.db, { ...sum, catchUps: running.size + counts.started, endpoints });
  return counts;
}

async function lookAt(deps: ActivityDeps, clientToken: string): Promise<OwedOverview> {
  await mendHold(deps, clientToken);
  const overview = await owedOverview(deps.db, clientToken, deps.delivery.retentionMs);
  if (!overview.isConsistent) {
    const problem = 'what is owed, since when and when it is due contradict each other';
    await keepAsBroken(deps, clientToken, { problem });
  }
  if (overview.owed === 0) await forgetOwedClient(deps.db, clientToken);
  return overview;
}

async function mendHold(deps: ActivityDeps, clientToken: string): Promise<void> {
  const client = await getClient(deps.db, clientToken);
  if (client === undefined) return;
  const account = await getAccount(deps.db, client.accountId);
  if (account !== undefined) await setHeld(deps.db, clientToken, account.disabled);
}

async function startWhatIsMissing(
  { catchUps, log }: ActivityDeps,
  clientToken: string,
  overview: OwedOverview,
  isRunning: boolean,
): Promise<'started' | 'replaced' | undefined> {
  const idle = overview.plannedMsAgo < 0 || overview.plannedMsAgo > idleMs;
  const overdue = overview.overdueMs > overdueMs;
  try {
    if (isRunning) {
      if (!overdue || !idle || overview.inFlight > 0) return undefined;
      await catchUps.replace(clientToken);
      return 'replaced';
    }
    if (!overdue && !(idle && overview.oldestMs > overdueMs)) return undefined;
    await catchUps.start(clientToken);
    return 'started';
  } catch (err) {
    log.error(
      { err, client_token: clientToken },
      'catch-up could not be started; the next sweep tries again',
    );
    return undefined;
  }
}

/** Whether nothing that a sweep reads of a client is broken. @throws what reading it throws */
async function isInOrder(deps: ActivityDeps, clientToken: string): Promise<boolean> {
  const { isConsistent } = await lookAt(deps, clientToken);
  await readWhatItIs(deps.db, clientToken);
  await accountForClient(deps, clientToken, ofBrokenClient);
  return isConsistent;
}
