/** The situation of each client, as `status` shows it, and what an operator does in it. */
import { mapInPages } from '../promises.js';
import type { Db } from '../redis/connection/db.js';
import { unlessBroken } from '../redis/connection/unavailable.js';
import { type Situation, waits } from '../redis/owed/waitReasons.js';
import { clientTokens, getClient } from '../redis/records/clients.js';
import { type Endpoint, getEndpoint } from '../redis/records/endpoint.js';

/**
 * What an operator does in a client's situation, and whether its receiver is the cause; the worst first. `late`: an asset could have been
 * sent for more than 2 minutes, and is not. `draining`: due assets are sent as fast as the client's bounds allow. `clear`: nothing is
 * owed or overdue.
 */
export const situationTable: Record<Situation, { todo: string; isTheirs?: true }> = {
  late: { todo: 'doctor; if all is ok there: registration resume CLIENT' },
  suspended: { todo: 'ask its publisher, then: registration resume CLIENT', isTheirs: true },
  failing: { todo: 'tell its publisher; it is probed', isTheirs: true },
  not_before: { todo: 'nothing: the endpoint asked to wait', isTheirs: true },
  retrying: { todo: 'nothing: it is tried again' },
  draining: { todo: 'nothing: it is catching up' },
  held: { todo: 'if it may go on: account enable ACCOUNT' },
  paused: { todo: 'if it may go on: registration resume CLIENT' },
  no_url: { todo: 'ask its publisher to register a URL' },
  clear: { todo: 'nothing' },
};
export const situations = Object.keys(situationTable) as Situation[];

export interface ClientStatus {
  clientToken: string;
  endpoint: Endpoint;
  situation: Situation;
  todo: string;
}

/** Longer than the sweep takes to find what nothing works on (contract, section 3). */
const lateMs = 120_000;
const concurrency = 100;

/** Reads client by client, so that broken keys of one client hide no other. @throws if Redis is unavailable */
export async function readClients(db: Db): Promise<{ clients: ClientStatus[]; broken: string[] }> {
  const broken = new Set<string>();
  const clients: ClientStatus[] = [];
  for await (const page of clientTokens(db)) {
    await mapInPages(page, concurrency, (clientToken) =>
      unlessBroken(
        async () => {
          const endpoint = await getEndpoint(db, clientToken);
          if (!endpoint.isConsistent) broken.add(clientToken);
          const client = await getClient(db, clientToken);
          if (client === undefined) return;
          const situation = classify(endpoint);
          const { todo: named } = situationTable[situation];
          const todo = named.replace('CLIENT', clientToken).replace('ACCOUNT', client.accountId);
          clients.push({ clientToken, endpoint, situation, todo });
        },
        () => void broken.add(clientToken),
      ),
    );
  }
  return { clients, broken: [...broken].sort() };
}

function classify(endpoint: Endpoint): Situation {
  const { state, held, waitingReason, overdueMs, oldestOwedAt = Infinity } = endpoint;
  if (held) return 'held';
  // An endpoint is late even while it fails, if nobody makes its probe.
  if (waitingReason === 'due' && overdueMs > lateMs) return 'late';
  if (state !== 'active') return state;
  if (waitingReason === 'due' && oldestOwedAt < Date.now() - lateMs) return 'draining';
  const { situation } = waits[waitingReason ?? 'in_flight'];
  return situation === 'clear' && endpoint.failures > 0 && endpoint.owed > 0 ? 'retrying' : situation;
}
