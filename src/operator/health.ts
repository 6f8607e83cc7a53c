/** How every client is doing: read client by client, so that one whose keys are broken hides nothing of the others. */
import { mapInPages } from '../mapInPages.js';
import { clientTokens, getClient } from '../store/clients.js';
import { type Db, isRedisUnavailable } from '../store/db.js';
import { type Endpoint, getEndpoint } from '../store/endpoint.js';
import { oldestLiveOwedAt } from '../store/oldestLive.js';
import { owedOverview } from '../store/owed.js';
import { getRegistration } from '../store/registrations.js';

export interface ClientHealth {
  clientToken: string;
  registered: boolean;
  endpoint: Endpoint;
  overdueMs: number;
  oldestLiveOwedAt: number | undefined;
}

/** Clients asked about at the same time. */
const atOnce = 100;

/**
 * Walks all clients, by client token.
 * @returns also those whose keys cannot be read or contradict each other
 * @throws where Redis is away
 */
export async function healthOfClients(
  db: Db,
  retentionMs: number,
): Promise<{ clients: ClientHealth[]; broken: string[] }> {
  const tokens: string[] = [];
  for await (const page of clientTokens(db)) tokens.push(...page);
  const broken: string[] = [];
  const found = await mapInPages([...new Set(tokens)].sort(), atOnce, async (clientToken) => {
    try {
      const health = await healthOf(db, clientToken, retentionMs);
      if (health?.isConsistent === false) broken.push(clientToken);
      return health ?? [];
    } catch (err) {
      if (isRedisUnavailable(err)) throw err;
      broken.push(clientToken);
      return [];
    }
  });
  return { clients: found.flat(), broken: broken.sort() };
}

/** undefined for a client that was deleted. */
async function healthOf(
  db: Db,
  clientToken: string,
  retentionMs: number,
): Promise<(ClientHealth & { isConsistent: boolean }) | undefined> {
  const [client, registration, endpoint] = await Promise.all([
    getClient(db, clientToken),
    getRegistration(db, clientToken),
    getEndpoint(db, clientToken),
  ]);
  if (client === undefined) return undefined;
  const health = { clientToken, registered: registration !== undefined, endpoint };
  if (endpoint.owed === 0) {
    return { ...health, overdueMs: 0, oldestLiveOwedAt: undefined, isConsistent: true };
  }
  const { overdueMs, isConsistent } = await owedOverview(db, clientToken, retentionMs);
  return {
    ...health,
    overdueMs,
    oldestLiveOwedAt: await oldestLiveOwedAt(db, clientToken),
    isConsistent,
  };
}
