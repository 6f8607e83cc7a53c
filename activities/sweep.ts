import { Context } from '@temporalio/activity';
import type { ActivityDeps } from '../src/upkeep/deps.js';
import type { Supervised } from '../src/upkeep/supervise.js';
import { runSweep } from '../src/upkeep/sweep.js';

/** Finds owed assets that nothing works on. */
export async function sweepOwedClients(deps: ActivityDeps): Promise<Supervised> {
  const context = Context.current();
  return await runSweep(deps, (progress) => context.heartbeat(progress));
}
