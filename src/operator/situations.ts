/** The situation of each client, as `status` shows it, and what an operator does in it. */
import { mapInPages } from '../promises.js';
import type { Db } from '../redis/connection/db.js';
import { unlessBroken } from '../redis/connection/unavailable.js';
import { clientTokens, getClient } from '../redis/records/clients.js';
import { type Endpoint, getEndpoint } from '../redis/records/endpoint.js';

/**
 * Tells an operator what to do in a client's situation; the worst first. `late`: an asset could have been sent for more than
 * 2 minutes, and is not. `draining`: due assets are sent as fast as the client's bounds allow. `clear`: nothing is owed or overdue.
 */
export const todos = {
  late: 'doctor; if all is ok there: registration resume CLIENT',
  suspended: 'ask its publisher, then: registration resume CLIENT',
  failing: 'tell its publisher; it is probed',
  not_before: 'nothing: the endpoint asked to wait',
  retrying: 'nothing: it is tried again',
  draining: 'nothing: it is catching up',
  held: 'if it may go on: account enable ACCOUNT',
  paused: 'if it may go on: registration resume CLIENT',
  no_url: 'ask its publisher to register a URL',
  clear: 'nothing',
};
export type Situation = keyof typeof todos;
export const situations = Object.keys(todos) as Situation[];

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
          const todo = todos[situation].replace('CLIENT', clientToken).replace('ACCOUNT', client.accountId);
          clients.push({ clientToken, endpoint, situation, todo });
        },
        () => void broken.add(clientToken),
      ),
    );
  }
  return { clients, broken: [...broken].sort() };
}

function classify(endpoint: Endpoint): Situation {
  const { state, held, waitingReason, overdueMs, oldestOwedAt } = endpoint;
  if (held) return 'held';
  // An endpoint is late even while it fails, if nobody makes its probe.
  if (waitingReason === 'due' && overdueMs > lateMs) return 'late';
  if (state !== 'active') return state;
  switch (waitingReason) {
    case 'due':
      if (oldestOwedAt !== undefined && oldestOwedAt < Date.now() - lateMs) return 'draining';
      break;
    case 'full':
    case 'rate':
      return 'draining';
    case 'not_before':
      return 'not_before';
    case 'no_registration':
      return 'no_url';
  }
  return endpoint.failures > 0 && endpoint.owed > 0 ? 'retrying' : 'clear';
}
