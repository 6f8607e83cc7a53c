import { unconfirmedMs, waitForDisk } from '../src/store/durable.js';
import { wakeCatchUp } from '../src/temporal/catchUp.js';
import type { ActivityDeps } from './deps.js';

/**
 * The last step of a workflow that completes over an owed entry: the entry is on Redis' disk first (DESIGN rule 5),
 * then catch-up is woken if it would come too late. A wake-up that fails is not worth failing for: the sweep sees it.
 */
export async function leaveToCatchUp(
  deps: ActivityDeps,
  left: { clientToken: string; inMs: number },
): Promise<void> {
  const confirmed = await waitForDisk(deps.db);
  if (!confirmed) await new Promise((resolve) => setTimeout(resolve, unconfirmedMs));
  try {
    await wakeCatchUp(deps.temporal, deps.db, left.clientToken, {
      inMs: left.inMs,
      taskQueue: deps.taskQueue,
    });
  } catch (err) {
    deps.log.warn({ err, client_token: left.clientToken }, 'catch-up could not be woken; the sweep will');
  }
}
