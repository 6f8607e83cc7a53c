import { Context } from '@temporalio/activity';
import { mapInPages } from '../src/mapInPages.js';
import { getAccount } from '../src/store/accounts.js';
import { getClient } from '../src/store/clients.js';
import { setHeld } from '../src/store/endpoint.js';
import { forgetOwedClient, owedClients, owedOverview } from '../src/store/owed.js';
import { accountForSome, besideOthers } from './account.js';
import { clearDeletedClients } from './deletions.js';
import type { ActivityDeps } from './deps.js';
import { reclaimEvents } from './reclaim.js';
import { tellOperatorsChanges } from './tellOperatorsChanges.js';

/** What waits in an engine's queue is somebody's: only what is overdue, or owed, for so long is looked after. */
const overdueMs = 60_000;
/** Since the last plan of a catch-up that is at work. */
const idleMs = 45_000;
/** Clients looked at side by side: one after the other, a busy server took 0.2 s for each catch-up that was started. */
const atOnce = 20;

export interface Swept {
  looked: number;
  started: number;
  replaced: number;
  /** Events of workflows that closed before their claim, claimed now. */
  reclaimed: number;
}

/**
 * Finds what nobody works on: owed clients without catch-up, then events whose workflow closed before its claim, then
 * deletions that broke off. Then looks at some of what there is, whether it is accounted for. What operators changed is told on the way.
 */
export async function sweepOwedClients(deps: ActivityDeps): Promise<Swept> {
  const context = Context.current();
  const counts = await superviseCatchUps(deps, (soFar) => context.heartbeat(soFar));
  await tellOperatorsChanges(deps).catch((err: unknown) =>
    deps.log.error({ err }, 'what operators changed could not be told'),
  );
  const reclaimed = await reclaimEvents(deps, () => context.heartbeat(counts));
  await clearDeletedClients(deps, () => context.heartbeat(counts));
  await accountForSome(deps, () => context.heartbeat(counts));
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
  const supervise = async (clientToken: string): Promise<void> => {
    // Each: a page of 500 clients may take a busy Redis longer than the server waits for a heartbeat.
    heartbeat(counts);
    counts.looked++;
    await mendHold(deps, clientToken);
    const overview = await owedOverview(deps.db, clientToken, deps.delivery.retentionMs);
    if (overview.owed === 0) {
      await forgetOwedClient(deps.db, clientToken);
      return;
    }
    const idle = overview.plannedMsAgo < 0 || overview.plannedMsAgo > idleMs;
    const overdue = overview.overdueMs > overdueMs && idle;
    if (running.has(clientToken)) {
      if (!overdue || overview.inFlight > 0) return;
      await deps.catchUps.replace(clientToken);
      counts.replaced++;
    } else if (overview.overdueMs > overdueMs || (idle && overview.oldestMs > overdueMs)) {
      await deps.catchUps.start(clientToken);
      counts.started++;
    }
  };
  for await (const page of owedClients(deps.db)) {
    await mapInPages(page, atOnce, (clientToken) =>
      besideOthers(deps, clientToken, () => supervise(clientToken)),
    );
  }
  return counts;
}

async function mendHold(deps: ActivityDeps, clientToken: string): Promise<void> {
  const client = await getClient(deps.db, clientToken);
  if (client === undefined) return;
  const account = await getAccount(deps.db, client.accountId);
  if (account !== undefined) await setHeld(deps.db, clientToken, account.disabled);
}
