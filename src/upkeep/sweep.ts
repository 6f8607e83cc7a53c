/** Finds work that was left behind. Each job leaves out the part of Redis that does not answer. */
import { witnessClocks } from '../redis/connection/clocks.js';
import { settleAccounts } from '../redis/records/accounts.js';
import { dropOldMinutes } from '../redis/records/auditMinutes.js';
import { countEndpoints, noteCounts, readCounts } from '../redis/records/counts.js';
import { continueDeletion, deletionsDue } from '../redis/records/deletion.js';
import { type Swept, wakeLateCatchUps } from './lateCatchUps.js';
import { reportOperatorsChanges } from './operatorsChanges.js';
import { type SweepDeps, SweepRound } from './sweepRound.js';

/** Sweeps follow each other within this time, unless Redis' clock was set or no worker ran. */
const steadyWithinMs = 120_000;
/** Endpoints and notices of all clients are looked at this seldom. */
const allEveryMs = 60_000;
/** Endpoints of all clients are counted within this time. */
const longestCountMs = 600_000;
/** For so long no jump of Redis' clock was seen before entries of the audit are forgotten by it. */
const steadyForMs = 600_000;
/** Clients whose notices one sweep claims; the next sweep claims the rest. */
const maxWithNotices = 2000;
/** Deleted clients that one sweep clears; the next sweep clears the rest. */
const maxDeletions = 50;

/** Does the jobs of a sweep one after another, and notes its end for the metrics. @param counts gets the progress */
export async function runSweep(deps: SweepDeps, counts: Swept = { looked: 0, woken: 0, replaced: 0 }) {
  const { db, log } = deps;
  const round = new SweepRound(deps);
  await witnessClocks(db, log).catch(round.noteAway);
  const before = await readCounts(db).catch(round.noteAway);
  const { ageMs = Infinity, steadyMs: steadyBeforeMs = 0 } = before?.ended ?? {};
  const steadyMs = ageMs < steadyWithinMs ? steadyBeforeMs + ageMs : 0;
  const looksAtAll = before?.endpoints === undefined || before.endpoints.ageMs >= allEveryMs;
  await wakeLateCatchUps(round, counts, steadyMs);
  await settleAccounts(db, {
    broken: (account_id, err) =>
      log.error({ err, account_id }, 'a client of this account does not follow the change of it'),
    away: round.noteAway,
  }).catch(round.noteAway);
  // What changed while the last one counted is looked at again.
  const since = (before?.endpoints?.atMs ?? 0) - longestCountMs;
  if (looksAtAll) await claimLeftNotices(round, since).catch(round.noteAway);
  if (looksAtAll && steadyMs > steadyForMs) await dropOldMinutes(db).catch(round.noteAway);
  await reportOperatorsChanges(round)
    .catch(round.noteAway)
    .catch((err: unknown) => log.error({ err }, 'operator changes could not be logged'));
  await clearDeletedClients(round).catch(round.noteAway);
  await noteCounts(db, 'ended', { brokenClients: round.broken.size, steadyMs }).catch(round.noteAway);
  return counts;
}

/** Counts the endpoints of all clients, and claims the notices that processes which ended early, or commands, have left. */
async function claimLeftNotices(round: SweepRound, since: number): Promise<void> {
  const { db, notices } = round.deps;
  const withNotices: string[] = [];
  const endpoints = await countEndpoints(
    db,
    {
      broken: async (clientToken, err) => round.noteBroken(clientToken, { err }),
      notice: (clientToken) => withNotices.push(clientToken),
    },
    since,
  );
  await round.workOn(withNotices.slice(0, maxWithNotices), (clientToken) => notices.claim(clientToken));
  await noteCounts(db, 'endpoints', endpoints);
}

/** Continues interrupted deletions, and clears keys that others wrote during a deletion. */
async function clearDeletedClients(round: SweepRound): Promise<void> {
  const { db, log } = round.deps;
  for (const deletion of await deletionsDue(db, maxDeletions))
    await round.workOn([deletion.clientToken], async (client_token) => {
      const { cancelled } = await continueDeletion(db, deletion);
      if (cancelled > 0)
        log.info({ client_token, cancelled }, 'cancelled the owed notifications of a deleted client');
    });
}
