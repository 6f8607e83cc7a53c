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
export async function leaveOnDisk(deps: ActivityDeps, left: LeftToCatchUp): Promise<number[]> {
  const lost = await lostClaims(deps.db, left.clientToken, left.claims ?? []);
  await wake(deps, left);
  return lost;
}

/** The same for claims that no restart of Redis can have taken back: it had them on its disk when it answered. */
export async function wake(
  { temporal, db, taskQueue, log }: ActivityDeps,
  { clientToken, inMs }: LeftToCatchUp,
): Promise<void> {
  try {
    await wakeCatchUp(temporal, db, clientToken, { inMs, taskQueue });
  } catch (err) {
    log.warn({ err, client_token: clientToken }, 'catch-up could not be woken; the sweep will');
  }
}
