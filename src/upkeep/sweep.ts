import { countBroken } from '../redis/sweep/brokenClients.js';
import { noteSweepEnd } from '../redis/sweep/counts.js';
import { unaccountedNow } from '../redis/sweep/findings.js';
import { accountForSome } from './account.js';
import { lookAgainAtBroken } from './brokenClients.js';
import { clearDeletedClients } from './deletions.js';
import type { ActivityDeps } from './deps.js';
import { reclaimEvents } from './reclaim.js';
import { lookAfterRuns } from './runs.js';
import { isInOrder, type Supervised, superviseCatchUps } from './supervise.js';
import { tellOperatorsChanges } from './tellOperatorsChanges.js';

export interface Swept extends Supervised {
  /** Events of workflows that closed before their claim, claimed now. */
  reclaimed: number;
}

/**
 * Finds what nobody works on: owed clients without catch-up, events whose workflow closed before its claim, deletions that
 * broke off, runs whose clients do not follow their state. Then checks whether a sample of the records is accounted for. On the way it logs what operators changed, and
 * writes down for the metrics how much there is of everything.
 * @param heartbeat called with how far it is, more often than any step takes
 */
export async function runSweep(
  deps: ActivityDeps,
  heartbeat: (progress?: Supervised) => void,
): Promise<Swept> {
  await lookAgainAtBroken(deps, (clientToken) => {
    heartbeat();
    return isInOrder(deps, clientToken);
  });
  const supervised = await superviseCatchUps(deps, heartbeat);
  await tellOperatorsChanges(deps).catch((err: unknown) =>
    deps.log.error({ err }, 'what operators changed could not be logged'),
  );
  const stillAlive = () => heartbeat(supervised);
  const reclaimed = await reclaimEvents(deps, stillAlive);
  await clearDeletedClients(deps, stillAlive);
  await lookAfterRuns(deps, stillAlive);
  await accountForSome(deps, stillAlive);
  const [unaccounted, brokenClients] = await Promise.all([unaccountedNow(deps.db), countBroken(deps.db)]);
  await noteSweepEnd(deps.db, { unaccounted, brokenClients });
  return { ...supervised, reclaimed: reclaimed.events };
}
