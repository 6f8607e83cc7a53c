import { mapInPages } from '../mapInPages.js';
import { nowOf } from '../redis/connection/db.js';
import { isRedisUnavailable } from '../redis/connection/unavailable.js';
import { forgetOwedClient, indexedClients } from '../redis/owed/owedClients.js';
import { type Overview, readOverview, type WaitReason } from '../redis/owed/standing.js';
import { getAccount } from '../redis/records/accounts.js';
import { getClient } from '../redis/records/clients.js';
import { countEndpoints, noteCounted, readCounts } from '../redis/records/counts.js';
import { setHeld } from '../redis/records/endpoint.js';
import { besideOthers, noteBroken, type SweepDeps } from './brokenClients.js';

/** What is due for so long has nobody who sends it. */
const overdueMs = 2000;
/** A catch-up that lets something wait for so long, although it was woken, is stuck. */
const stuckMs = 120_000;
/** Clients handled at the same time: one after the other, a busy server took 0.2 s for each started catch-up. */
const concurrency = 20;
/** Endpoints and notices of all clients are looked at this seldom. */
const allEveryMs = 60_000;
/** Clients whose notices one sweep claims; the next sweep claims the rest. */
const maxWithNotices = 2000;

export interface Supervised {
  /** Clients that are owed something. */
  looked: number;
  /** Catch-ups. */
  woken: number;
  replaced: number;
}

/**
 * Compares the next time of each client that is owed something with the present, and wakes catch-up where it has passed. Every
 * minute it also counts the endpoints, repairs the hold of clients whose account was only partly disabled or enabled, and claims
 * notices that are left from processes that ended early, or operators' commands. What is away is left out, and counted.
 */
export async function superviseCatchUps(
  deps: SweepDeps,
  heartbeat: (progress: Supervised) => void,
): Promise<Supervised> {
  const counts: Supervised = { looked: 0, woken: 0, replaced: 0 };
  const sum = { owed: 0, owedClients: 0, overdueClients: 0, oldestOverdueMs: 0, catchUps: 0 };
  const { counted } = await readCounts(deps.db);
  const looksAtAll =
    counted?.endpoints === undefined || nowOf(deps.db) - (counted.endpointsAt ?? 0) >= allEveryMs;
  const supervise = async (clientToken: string): Promise<void> => {
    // A heartbeat for each client: a page of 500 may take a busy Redis longer than the heartbeat timeout.
    heartbeat(counts);
    counts.looked++;
    if (looksAtAll) await mendHold(deps, clientToken);
    const overview = await readOverview(deps.db, clientToken, deps.settings);
    if (!overview.isConsistent) {
      noteBroken(deps, clientToken, { problem: 'the keys owed, owed-since and due contradict each other' });
    }
    if (overview.owed === 0) return await forgetOwedClient(deps.db, clientToken);
    const lateMs = overdueOf(overview, deps.settings.retentionMs);
    sum.owed += overview.owed;
    sum.owedClients++;
    if (overview.fields.catch_up_until !== undefined) sum.catchUps++;
    if (lateMs > stuckMs) sum.overdueClients++;
    sum.oldestOverdueMs = Math.max(sum.oldestOverdueMs, lateMs);
    if (lateMs <= overdueMs) return;
    const done = await wake(deps, clientToken, lateMs);
    if (done !== undefined) counts[done]++;
  };
  const pages = indexedClients(deps.db, (err) => noteAway(deps, err));
  for await (const page of pages) {
    await mapInPages(page, concurrency, (clientToken) =>
      besideOthers(deps, clientToken, () => supervise(clientToken)).catch((err: unknown) =>
        noteAway(deps, err),
      ),
    );
  }
  const endpoints = looksAtAll ? await lookAtAll(deps, () => heartbeat(counts)) : undefined;
  await noteCounted(deps.db, {
    ...sum,
    endpoints: endpoints ?? counted?.endpoints,
    endpointsAt: endpoints === undefined ? counted?.endpointsAt : nowOf(deps.db),
  });
  return counts;
}

const stopped: WaitReason[] = ['no_registration', 'paused', 'suspended', 'failing', 'not_before'];

/** Returns for how long something could have been sent that nobody sends, ms; below 0 if that time is yet to come. */
function overdueOf({ now, at, reason, leaseEndsAt, oldestOwedAt }: Overview, retentionMs: number): number {
  const expiresAt = (oldestOwedAt ?? now) + retentionMs;
  if (stopped.includes(reason)) return now - (at ?? expiresAt);
  // What is in flight is due when its lease ends: its process may have died.
  return now - Math.min(at ?? expiresAt, leaseEndsAt ?? expiresAt);
}

async function mendHold(deps: SweepDeps, clientToken: string): Promise<void> {
  const client = await getClient(deps.db, clientToken);
  if (client === undefined) return;
  const account = await getAccount(deps.db, client.accountId);
  if (account === undefined) return;
  await setHeld(deps.db, clientToken, account.disabled);
}

async function wake(
  { catchUps, log }: SweepDeps,
  clientToken: string,
  lateMs: number,
): Promise<'woken' | 'replaced' | undefined> {
  try {
    if (lateMs > stuckMs) {
      await catchUps.replace(clientToken);
      return 'replaced';
    }
    await catchUps.wakeNow(clientToken);
    return 'woken';
  } catch (err) {
    log.error({ err, client_token: clientToken }, 'catch-up could not be woken; the next sweep tries again');
    return undefined;
  }
}

/** Counts the endpoints of all clients, and claims their notices. @returns undefined if a part of Redis is away */
async function lookAtAll(deps: SweepDeps, heartbeat: () => void) {
  const withNotices: string[] = [];
  try {
    const endpoints = await countEndpoints(deps.db, {
      page: heartbeat,
      broken: async (clientToken, err) => noteBroken(deps, clientToken, { err }),
      notice: (clientToken) => withNotices.push(clientToken),
    });
    await mapInPages(withNotices.slice(0, maxWithNotices), concurrency, async (clientToken) => {
      heartbeat();
      await besideOthers(deps, clientToken, () => deps.notices.claim(clientToken));
    });
    return endpoints;
  } catch (err) {
    noteAway(deps, err);
    return undefined;
  }
}

/** Counts a part of Redis that does not answer. @throws any other error */
function noteAway(deps: SweepDeps, err: unknown): void {
  if (!isRedisUnavailable(err)) throw err;
  if (deps.away++ === 0) deps.log.warn({ err }, 'a part of redis is away: the sweep leaves its clients out');
}
