import {
  adoptIndex,
  announceChange,
  indexedClients,
  setAside,
  stoppedClients,
} from '../redis/owed/owedClients.js';
import { waits } from '../redis/owed/waitReasons.js';
import { noteOwed } from '../redis/records/attemptHistory.js';
import { getClient } from '../redis/records/clients.js';
import { noteCounts, nothingCounted } from '../redis/records/counts.js';
import { type Endpoint, getEndpoint, isAmiss } from '../redis/records/endpoint.js';
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
 * the client is owed. A client that is owed nothing leaves the index. A stopped client is set aside until its catch-up should have looked:
 * nothing can be sent to it before it is announced.
 * @param counts gets the progress
 * @param steadyMs for how long Redis' clock has shown no jump
 */
export async function wakeLateCatchUps(round: SweepRound, counts: Swept, steadyMs: number): Promise<void> {
  const { db, catchUps } = round.deps;
  const sum = structuredClone(nothingCounted);
  const failingAccounts = new Set<string | undefined>();
  const look = async (clientToken: string, wasAside: boolean) => {
    const endpoint = await getEndpoint(db, clientToken);
    if (!endpoint.isConsistent)
      round.noteBroken(clientToken, { problem: 'the keys owed, owed-since and due contradict each other' });
    if (endpoint.owed === 0 && !endpoint.replay?.runs) {
      if (isAmiss(endpoint)) await db.redis.sadd(db.global.amissClients, clientToken);
      return await setAside(db, clientToken, steadyMs);
    }
    const { owed, catchUpLateMs } = endpoint;
    // It is looked at below.
    if (wasAside && !isStopped(endpoint)) return await announceChange(db, clientToken);
    counts.looked++;
    addUp(sum, endpoint);
    if (endpoint.state === 'failing') failingAccounts.add((await getClient(db, clientToken))?.accountId);
    if (isStopped(endpoint))
      return await setAside(db, clientToken, steadyMs, { owed, lookInMs: -catchUpLateMs });
    if (catchUpLateMs <= graceMs) return;
    const done = await catchUps.alarm(clientToken);
    if (done === 'woken' || done === 'replaced') counts[done]++;
  };
  await adoptIndex(db).catch(round.noteAway);
  for await (const page of stoppedClients(db, round.noteAway)) {
    const due: string[] = [];
    for (const { clientToken, owed, isDue } of page)
      if (isDue) due.push(clientToken);
      else addUpStopped(sum, owed);
    await round.workOn(due, (clientToken) => look(clientToken, true));
  }
  for await (const page of indexedClients(db, round.noteAway))
    await round.workOn(page, (clientToken) => look(clientToken, false));
  sum.failingAccounts = failingAccounts.size;
  await Promise.all([noteCounts(db, 'counted', sum), noteOwed(db, sum.owed)]).catch(round.noteAway);
}

/** Nothing can be sent before a change that announces the client, and its catch-up is known to run. */
function isStopped({ waitingReason, inFlight, catchUpLateMs }: Endpoint): boolean {
  const endsBy = waitingReason && waits[waitingReason].endsBy;
  return endsBy === 'change' && inFlight === 0 && catchUpLateMs < 0;
}

type Sum = typeof nothingCounted;

function addUpStopped(sum: Sum, owed: number): void {
  sum.owed += owed;
  sum.owedClients++;
  sum.catchUps++;
}

function addUp(sum: Sum, endpoint: Endpoint): void {
  const { owed, catchUpUntil, overdueMs, state, lastError = '', readAt, deliveredUntil = readAt } = endpoint;
  sum.owed += owed;
  sum.owedClients++;
  if (catchUpUntil !== undefined) sum.catchUps++;
  if (overdueMs > longOverdueMs) sum.overdueClients++;
  sum.oldestOverdueMs = Math.max(sum.oldestOverdueMs, overdueMs);
  if (!isStopped(endpoint)) sum.undeliveredMs = Math.max(sum.undeliveredMs, readAt - deliveredUntil);
  if (state !== 'failing') return;
  sum.failing[lastError] = (sum.failing[lastError] ?? 0) + 1;
  sum.failingOwed += owed;
}
