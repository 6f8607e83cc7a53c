import { Context } from '@temporalio/activity';
import type { ActivityDeps } from '../src/upkeep/deps.js';
import { type Followed, followRun as follow } from '../src/upkeep/runs.js';

/** Makes every client of a run follow its state. */
export async function followRun(deps: ActivityDeps, runId: string): Promise<Followed> {
  const context = Context.current();
  return await follow(deps, runId, () => context.heartbeat());
}
