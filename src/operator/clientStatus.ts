/** The situation of each client, for `status`. */
import { type Config, deliveryOf } from '../config.js';
import { mapInPages } from '../mapInPages.js';
import type { Db } from '../redis/connection/db.js';
import { unlessBroken } from '../redis/connection/unavailable.js';
import { clientTokens, getClient } from '../redis/records/clients.js';
import { type Endpoint, getEndpoint } from '../redis/records/endpoint.js';

/**
 * `late`: something could have been sent for more than 2 minutes, and is not. `draining`: what is due is sent as fast as the
 * client's bounds allow. The others say why nothing is sent now; `clear`: nothing is owed or overdue. The worst first.
 */
export const situations = [
  'late',
  'suspended',
  'failing',
  'not_before',
  'draining',
  'held',
  'paused',
  'no_url',
  'clear',
] as const;
export type Situation = (typeof situations)[number];

export interface ClientStatus {
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

/** Reads client by client, so that broken keys of one client hide no other. @throws if Redis is unavailable */
export async function readClients(
  db: Db,
  config: Config,
): Promise<{ clients: ClientStatus[]; broken: string[] }> {
  const bounds = deliveryOf(config);
  const broken = new Set<string>();
  const clients: ClientStatus[] = [];
  for await (const page of clientTokens(db)) {
    await mapInPages(page, concurrency, (clientToken) =>
      unlessBroken(
        async () => {
          const endpoint = await getEndpoint(db, clientToken, bounds);
          if (!endpoint.isConsistent) broken.add(clientToken);
          if ((await getClient(db, clientToken)) === undefined) return;
          const overdueMs = endpoint.overdueMs > lateMs ? endpoint.overdueMs : 0;
          clients.push({ clientToken, endpoint, situation: situationOf(endpoint), overdueMs });
        },
        () => void broken.add(clientToken),
      ),
    );
  }
  return { clients, broken: [...broken].sort() };
}

function situationOf({ state, held, waitingReason, overdueMs, oldestOwedAt }: Endpoint): Situation {
  if (held) return 'held';
  // A failing endpoint too, whose probe nobody makes.
  if (waitingReason === 'due' && overdueMs > lateMs) return 'late';
  if (state !== 'active') return state;
  switch (waitingReason) {
    case 'due':
      return oldestOwedAt !== undefined && oldestOwedAt < Date.now() - lateMs ? 'draining' : 'clear';
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
