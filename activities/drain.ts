import { Context } from '@temporalio/activity';
import type { ActivityDeps } from '../src/upkeep/deps.js';
import { type Drained, drainClient } from '../src/upkeep/drain.js';
import { withHeartbeat } from './heartbeat.js';

/** Has a client's courier send what is due, and plans when to look again. */
export async function drain(deps: ActivityDeps, clientToken: string): Promise<Drained> {
  const { cancellationSignal } = Context.current();
  return await withHeartbeat(
    () => drainClient(deps, clientToken, cancellationSignal),
    () => deps.couriers.flowOf(clientToken),
  );
}
