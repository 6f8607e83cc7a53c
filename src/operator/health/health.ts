/** The situation of each client. */
import { deliveryOf } from '../../config.js';
import { mapInPages } from '../../mapInPages.js';
import { unlessBroken } from '../../redis/connection/unavailable.js';
import { getClient } from '../../redis/records/clients.js';
import { type Endpoint, getEndpoint } from '../../redis/records/endpoint.js';
import type { Operator } from '../operator.js';

/**
 * `late`: something could have been sent for more than 2 minutes and is not. `draining`: what is due is sent as fast as the
 * client's bounds allow. The others say why nothing is sent now; `clear`: nothing is owed or overdue.
 */
export type Situation =
  | 'late'
  | 'draining'
  | 'suspended'
  | 'failing'
  | 'not_before'
  | 'paused'
  | 'held'
  | 'no_url'
  | 'clear';

export interface ClientHealth {
  clientToken: string;
  endpoint: Endpoint;
  situation: Situation;
  /** How long the next attempt is overdue, ms; 0 if it is not. */
  overdueMs: number;
}

/** Longer than the sweep takes to find what nothing works on (contract, section 3). */
const lateMs = 120_000;
/** Clients read at the same time. */
const concurrency = 100;

export interface Health {
  clients: ClientHealth[];
  /** Clients whose keys cannot be read or contradict each other. */
  broken: string[];
}

/**
 * Reads client by client, so that broken keys of one client hide no other.
 * @param tokens deleted clients among them are left out
 * @throws if Redis is unavailable
 */
export async function healthOfClients(operator: Operator, tokens: Iterable<string>): Promise<Health> {
  const db = await operator.db();
  const bounds = deliveryOf(operator.config());
  const broken = new Set<string>();
  const healthOf = async (clientToken: string): Promise<ClientHealth | undefined> => {
    const [client, endpoint] = await Promise.all([
      getClient(db, clientToken),
      getEndpoint(db, clientToken, bounds),
    ]);
    if (!endpoint.isConsistent) broken.add(clientToken);
    if (client === undefined) return undefined;
    const overdueMs = endpoint.overdueMs > lateMs ? endpoint.overdueMs : 0;
    return { clientToken, endpoint, situation: situationOf(endpoint), overdueMs };
  };
  const found = await mapInPages([...new Set(tokens)].sort(), concurrency, (clientToken) =>
    unlessBroken(
      () => healthOf(clientToken),
      () => void broken.add(clientToken),
    ),
  );
  return { clients: found.flatMap((client) => client ?? []), broken: [...broken].sort() };
}

function situationOf({ state, held, waitingReason, overdueMs }: Endpoint): Situation {
  if (held) return 'held';
  if (state !== 'active') return state;
  switch (waitingReason) {
    case 'due':
      return overdueMs > lateMs ? 'late' : 'clear';
    case 'full':
    case 'rate':
      return 'draining';
    case 'not_before':
      return 'not_before';
    case 'no_registration':
      return 'no_url';
    default:
      return 'clear';
  }
}
