import { countBroken } from '../redis/sweep/brokenClients.js';
import { noteSweepEnd } from '../redis/sweep/counts.js';
import { unaccountedNow } from '../redis/sweep/findings.js';
import { accountForSome } from './account.js';
import { lookAgainAtBroken } from './brokenClients.js';
import { clearDeletedClients } from './deletions.js';
import type { ActivityDeps } from './deps.js';
import { isInOrder, type Supervised, superviseCatchUps } from './supervise.js';
import { tellOperatorsChanges } from './tellOperatorsChanges.js';

/**
 * Finds work that nothing does: owed clients without catch-up, interrupted deletions. Then checks a sample of the records. It
 * also logs operators' changes, and writes the counts for the metrics.
 * @param heartbeat called with the progress, at short intervals
 */
export async function runSweep(
  deps: ActivityDeps,
  heartbeat: (progress?: Supervised) => void,
): Promise<Supervised> {
  await lookAgainAtBroken(deps, (clientToken) => {
    heartbeat();
    return isInOrder(deps, clientToken);
  });
  const supervised = await superviseCatchUps(deps, heartbeat);
  await tellOperatorsChanges(deps).catch((err: unknown) =>
    deps.log.error({ err }, 'operator changes could not be logged'),
  );
  const stillAlive = () => heartbeat(supervised);
  await clearDeletedClients(deps, stillAlive);
  await accountForSome(deps, stillAlive);
  const [unaccounted, brokenClients] = await Promise.all([unaccountedNow(deps.db), countBroken(deps.db)]);
  await noteSweepEnd(deps.db, { unaccounted, brokenClients });
  return supervised;
}
