import { unconfirmedMs, waitForDisk } from '../src/store/durable.js';
import { lostClaims } from '../src/store/lostClaims.js';
import { wakeCatchUp } from '../src/temporal/catchUp.js';
import type { ActivityDeps } from './deps.js';

export interface LeftToCatchUp {
  clientToken: string;
  inMs: number;
  claims?: { platformId: string; claim: number }[];
}

/**
 * The last step of a workflow that completes over owed entries: they are on Redis' disk first (DESIGN rule 5), then
 * catch-up is woken if it would come too late. A wake-up that fails is not worth failing for: the sweep sees it.
 *
 * @returns indexes of the claims that are not there: what confirmed its disk may be a Redis that was started again
 * and had lost them. They have to be claimed again, and left again.
 */
export async function leaveToCatchUp(deps: ActivityDeps, left: LeftToCatchUp): Promise<number[]> {
  const confirmed = await waitForDisk(deps.db);
  if (!confirmed) await new Promise((resolve) => setTimeout(resolve, unconfirmedMs));
  return await leaveOnDisk(deps, left);
}

/** The same for what is on Redis' disk. */
export async function leaveOnDisk(
  deps: ActivityDeps,
  { clientToken, inMs, claims = [] }: LeftToCatchUp,
): Promise<number[]> {
  const lost = await lostClaims(deps.db, clientToken, claims);
  try {
    await wakeCatchUp(deps.temporal, deps.db, clientToken, { inMs, taskQueue: deps.taskQueue });
  } catch (err) {
    deps.log.warn({ err, client_token: clientToken }, 'catch-up could not be woken; the sweep will');
  }
  return lost;
}
