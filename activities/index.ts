import type { ClaimedEvent } from '../src/redis/owed/claim.js';
import type { ActivityDeps } from '../src/upkeep/deps.js';
import { awaitDelivery, deliver, handOver } from './deliver.js';
import { drain } from './drain.js';
import { sweepOwedClients } from './sweep.js';

/** Returns all activities of the workflows. */
export function createActivities(deps: ActivityDeps) {
  return {
    deliver: (events: ClaimedEvent[]) => deliver(deps, events),
    awaitDelivery: (events: ClaimedEvent[]) => awaitDelivery(deps, events),
    handOver: (clientTokens: string[]) => handOver(deps, clientTokens),
    drain: (clientToken: string) => drain(deps, clientToken),
    sweepOwedClients: () => sweepOwedClients(deps),
  };
}

export type Activities = ReturnType<typeof createActivities>;
