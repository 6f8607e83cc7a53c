import { mapInPages } from '../mapInPages.js';
import { forgetOwedClient, type OwedOverview, owedOverview } from '../redis/owed/owedClients.js';
import { indexedClients } from '../redis/owed/owedIndex.js';
import { getAccount } from '../redis/records/accounts.js';
import { getClient } from '../redis/records/clients.js';
import { setHeld } from '../redis/records/endpoint.js';
import { noteCounted } from '../redis/sweep/counts.js';
import { countEndpoints } from '../redis/sweep/endpointCounts.js';
import { besideOthers, noteBroken, type SweepDeps } from './brokenClients.js';

/** The sweep handles only clients with something overdue, or owed, for this long: an engine may have queued the rest. */
const overdueMs = 60_000;
/** A working catch-up has planned within this time, however long its attempts take. */
const idleMs = 45_000;
/** The sweep picks up overdue assets within 2 minutes (contract, section 3). */
const pickedUpWithinMs = 120_000;
/** Clients handled at the same time: one after the other, a busy server took 0.2 s for each started catch-up. */
const concurrency = 20;
/** Clients whose notices one sweep claims; the next sweep claims the rest. */
const maxWithNotices = 2000;

export interface Supervised {
  /** Clients that are owed something. */
  looked: number;
  /** Catch-ups. */
  started: number;
  replaced: number;
}

/**
 * Compares the clients that are owed something with the running catch-ups. Starts missing catch-ups, and
 * replaces those that do nothing although something is overdue. Also repairs the hold of clients whose account was only
 * partly disabled or enabled, and claims notices that are left from processes that ended early, or operators' commands.
 */
export async function superviseCatchUps(
  deps: SweepDeps,
  heartbeat: (progress: Supervised) => void,
): Promise<Supervised> {
  const running = await deps.catchUps.running();
  const counts: Supervised = { looked: 0, started: 0, replaced: 0 };
  const sum = { owed: 0, owedClients: 0, overdueClients: 0, oldestOverdueMs: 0 };
  const supervise = async (clientToken: string): Promise<void> => {
    // A heartbeat for each client: a page of 500 may take a busy Redis longer than the heartbeat timeout.
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
    sum.oldestOverdueMs = Math.max(sum.oldestOverdueMs, overview.overdueMs);
    const done = await startIfMissing(deps, clientToken, overview, running.has(clientToken));
    if (done !== undefined) counts[done]++;
  };
  for await (const page of indexedClients(deps.db)) await mapInPages(page, concurrency, supervise);
  const withNotices: string[] = [];
  const endpoints = await countEndpoints(deps.db, {
    page: () => heartbeat(counts),
    broken: (clientToken, err) => noteBroken(deps, clientToken, { err }),
    notice: (clientToken) => withNotices.push(clientToken),
  });
  await noteCounted(deps.db, { ...sum, catchUps: running.size + counts.started, endpoints });
  await mapInPages(withNotices.slice(0, maxWithNotices), concurrency, async (clientToken) => {
    heartbeat(counts);
    await besideOthers(deps, clientToken, () => deps.notices.claim(clientToken));
  });
  return counts;
}

async function lookAt(deps: SweepDeps, clientToken: string): Promise<OwedOverview> {
  await mendHold(deps, clientToken);
  const overview = await owedOverview(deps.db, clientToken, deps.settings.retentionMs);
  if (!overview.isConsistent) {
    const problem = 'the keys owed, owed-since and due contradict each other';
    noteBroken(deps, clientToken, { problem });
  }
  if (overview.owed === 0) await forgetOwedClient(deps.db, clientToken);
  return overview;
}

async function mendHold(deps: SweepDeps, clientToken: string): Promise<void> {
  const client = await getClient(deps.db, clientToken);
  if (client === undefined) return;
  const account = await getAccount(deps.db, client.accountId);
  if (account !== undefined) await setHeld(deps.db, clientToken, account.disabled);
}

async function startIfMissing(
  { catchUps, log }: SweepDeps,
  clientToken: string,
  overview: OwedOverview,
  isRunning: boolean,
): Promise<'started' | 'replaced' | undefined> {
  const idle = overview.plannedMsAgo < 0 || overview.plannedMsAgo > idleMs;
  const overdue = overview.overdueMs > overdueMs;
  try {
    if (isRunning) {
      if (!overdue || !idle) return undefined;
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
