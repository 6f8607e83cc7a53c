import type { Waiting } from '../src/delivery/outcome.js';
import type { ClaimedEvent } from '../src/redis/owed/claim.js';
import type { ActivityDeps } from '../src/upkeep/deps.js';
import { awaitDelivery } from './awaitDelivery.js';
import { deliver, handOver } from './deliver.js';
import { drain } from './drain.js';
import { attemptRedelivery, type Redelivery } from './redelivery.js';
import { sweepOwedClients } from './sweep.js';

/**
 * Returns all activities of the workflows.
 * @param slots activities of catch-up and sweep that one process runs at a time; drains are crowded when they use half of them
 * @param onDrains called with the number of drains under way whenever it changes
 */
export function createActivities(
  deps: ActivityDeps,
  slots = Number.POSITIVE_INFINITY,
  onDrains: (underWay: number) => void = () => undefined,
) {
  let drains = 0;
  const isCrowded = () => drains > slots / 2;
  return {
    deliver: (events: ClaimedEvent[]) => deliver(deps, events),
    awaitDelivery: (events: ClaimedEvent[], known: Waiting[]) => awaitDelivery(deps, events, known),
    handOver: (clientTokens: string[]) => handOver(deps, clientTokens),
    drain: async (clientToken: string) => {
      onDrains(++drains);
      try {
        return await drain(deps, clientToken, isCrowded);
      } finally {
        onDrains(--drains);
      }
    },
    attemptRedelivery: (item: Redelivery) => attemptRedelivery(deps, item),
    sweepOwedClients: () => sweepOwedClients(deps),
  };
}

export type Activities = ReturnType<typeof createActivities>;
