import type { Db } from '../redis/connection/db.js';
import { forgetOwedClient, indexedClients } from '../redis/owed/owedClients.js';
import { getAccount } from '../redis/records/accounts.js';
import { noteOwed } from '../redis/records/attemptHistory.js';
import { getClient } from '../redis/records/clients.js';
import { noteCounts } from '../redis/records/counts.js';
import { type Endpoint, getEndpoint, setHeld } from '../redis/records/endpoint.js';
import type { SweepRound } from './sweepRound.js';

/** The process that sends, or catch-up, may be this late. */
const graceMs = 2000;
/** What could have been sent for so long counts as overdue in the metrics. */
const longOverdueMs = 120_000;

export interface Swept {
  /** Clients that are owed something. */
  looked: number;
  /** Catch-ups that were woken because they were late, and those that were replaced because they were stuck. */
  woken: number;
  replaced: number;
}

/**
 * Looks at each client of the index of owed clients: wakes its catch-up, where that has not looked when it should have, and counts what
 * the client is owed. A client that is owed nothing leaves the index.
 * @param counts gets the progress
 * @param how.repairsHolds also holds or lets go clients whose account was only partly disabled or enabled
 * @param how.steadyMs for how long Redis' clock has shown no jump
 */
export async function wakeLateCatchUps(
  round: SweepRound,
  counts: Swept,
  { repairsHolds, steadyMs }: { repairsHolds: boolean; steadyMs: number },
): Promise<void> {
  const { db, catchUps } = round.deps;
  const none = {
    owed: 0,
    owedClients: 0,
    overdueClients: 0,
    oldestOverdueMs: 0,
    catchUps: 0,
    failingOwed: 0,
  };
  const sum: Sum = { ...none, failing: {} };
  const failingAccounts = new Set<string | undefined>();
  for await (const page of indexedClients(db, round.noteAway))
    await round.workOn(page, async (clientToken) => {
      counts.looked++;
      const endpoint = await getEndpoint(db, clientToken);
      if (repairsHolds) await repairHold(db, clientToken, endpoint);
      if (!endpoint.isConsistent)
        round.noteBroken(clientToken, { problem: 'the keys owed, owed-since and due contradict each other' });
      if (endpoint.owed === 0) return await forgetOwedClient(db, clientToken, steadyMs);
      addUp(sum, endpoint);
      if (endpoint.state === 'failing') failingAccounts.add((await getClient(db, clientToken))?.accountId);
      if (endpoint.catchUpLateMs <= graceMs) return;
      const done = await catchUps.alarm(clientToken);
      if (done === 'woken' || done === 'replaced') counts[done]++;
    });
  const counted = { ...sum, failingAccounts: failingAccounts.size };
  await Promise.all([noteCounts(db, 'counted', counted), noteOwed(db, sum.owed)]).catch(round.noteAway);
}

async function repairHold(db: Db, clientToken: string, { held }: Endpoint): Promise<void> {
  const client = await getClient(db, clientToken);
  const account = client && (await getAccount(db, client.accountId));
  if (account && account.disabled !== held) await setHeld(db, clientToken, account.disabled);
}

type Sum = Omit<NonNullable<Parameters<typeof noteCounts<'counted'>>[2]>, 'failingAccounts'>;

function addUp(sum: Sum, { owed, catchUpUntil, overdueMs, state, lastError = '' }: Endpoint): void {
  sum.owed += owed;
  sum.owedClients++;
  if (catchUpUntil !== undefined) sum.catchUps++;
  if (overdueMs > longOverdueMs) sum.overdueClients++;
  sum.oldestOverdueMs = Math.max(sum.oldestOverdueMs, overdueMs);
  if (state !== 'failing') return;
  sum.failing[lastError] = (sum.failing[lastError] ?? 0) + 1;
  sum.failingOwed += owed;
}
