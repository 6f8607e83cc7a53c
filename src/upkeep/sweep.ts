import { noteSweepEnd } from '../redis/records/counts.js';
import type { SweepDeps } from './brokenClients.js';
import { clearDeletedClients } from './deletions.js';
import type { ActivityDeps } from './deps.js';
import { type Supervised, superviseCatchUps } from './supervise.js';
import { tellOperatorsChanges } from './tellOperatorsChanges.js';

/**
 * Finds work that nothing does: owed clients without catch-up, interrupted deletions. It also logs operators' changes, and
 * writes the counts for the metrics.
 * @param heartbeat called with the progress, at short intervals
 */
export async function runSweep(
  activityDeps: ActivityDeps,
  heartbeat: (progress?: Supervised) => void,
): Promise<Supervised> {
  const deps: SweepDeps = { ...activityDeps, broken: new Set(), away: 0 };
  const supervised = await superviseCatchUps(deps, heartbeat);
  await tellOperatorsChanges(deps).catch((err: unknown) =>
    deps.log.error({ err }, 'operator changes could not be logged'),
  );
  const stillAlive = () => heartbeat(supervised);
  await clearDeletedClients(deps, stillAlive);
  await noteSweepEnd(deps.db, { brokenClients: deps.broken.size });
  return supervised;
}
