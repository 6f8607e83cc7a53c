import { mapInPages } from '../mapInPages.js';
import { isRedisUnavailable } from '../redis/connection/db.js';
import { isTemporalUnavailable } from '../temporal/unavailable.js';
import { keepAsBroken } from './brokenClients.js';
import type { ActivityDeps } from './deps.js';

/** Clients in one sweep; the next sweep handles the rest. */
const maxClients = 2000;
const concurrency = 20;

/**
 * Hands over notices that are left from processes that ended early, operators' commands, or a time without Temporal.
 * Never rejects: the next sweep tries again.
 * @param heartbeat called before each client
 */
export async function handOverLeftNotices(
  deps: Pick<ActivityDeps, 'db' | 'notices' | 'log'>,
  clientTokens: readonly string[],
  heartbeat: () => void,
): Promise<void> {
  const handOver = async (clientToken: string): Promise<void> => {
    heartbeat();
    try {
      await deps.notices.handOver(clientToken);
    } catch (err) {
      if (isRedisUnavailable(err) || isTemporalUnavailable(err)) throw err;
      await keepAsBroken(deps, clientToken, { err });
    }
  };
  try {
    await mapInPages(clientTokens.slice(0, maxClients), concurrency, handOver);
  } catch (err) {
    deps.log.warn({ err }, 'notices could not be handed over; the next sweep tries again');
  }
}
