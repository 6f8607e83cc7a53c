import { Context } from '@temporalio/activity';
import type { ActivityDeps } from '../src/upkeep/deps.js';
import { Drain, type DrainResult } from '../src/upkeep/drain.js';
import { withHeartbeat } from './heartbeat.js';

/**
 * Delivers a client's owed assets, until nothing is due or its time is over. A cancelled drain begins nothing more.
 * @param isCrowded whether drains take most of the slots of this process
 */
export async function drain(
  deps: ActivityDeps,
  clientToken: string,
  isCrowded: () => boolean = () => false,
): Promise<DrainResult> {
  const { info, cancellationSignal: cancelled } = Context.current();
  const timeoutMs = info.startToCloseTimeoutMs;
  const one = new Drain(deps, clientToken, { timeoutMs, cancelled, isCrowded });
  return await withHeartbeat(
    () => one.run(),
    () => one.done,
  );
}
