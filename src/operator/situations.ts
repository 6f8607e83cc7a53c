/** The situation of each client, as `status` shows it, and what an operator does in it. */
import { mapInPages, restsBetweenSteps } from '../promises.js';
import type { Db } from '../redis/connection/db.js';
import { unlessBroken } from '../redis/connection/unavailable.js';
import { clientsToLookAt } from '../redis/owed/owedClients.js';
import { waits } from '../redis/owed/waitReasons.js';
import { clientTokens, getClient } from '../redis/records/clients.js';
import { isAmissKnown } from '../redis/records/counts.js';
import { type Endpoint, getEndpoint } from '../redis/records/endpoint.js';

/**
 * What an operator does in a client's situation, and whether its receiver is the cause; the worst first. `late`: an asset could have been
 * sent for more than 2 minutes, and is not. `failed`: no receiver prevents deliveries now, and videos were given up. `draining`: due assets are sent as fast as the client's bounds allow. `clear`: nothing is
 * owed or overdue.
 */
const table = {
  late: { todo: 'doctor; if all is ok there: registration resume CLIENT' },
  suspended: { todo: 'ask its publisher, then: registration resume CLIENT', isTheirs: true },
  failing: { todo: 'tell its publisher; it is probed', isTheirs: true },
  not_before: { todo: 'nothing: the endpoint asked to wait', isTheirs: true },
  failed: { todo: 'notification recover CLIENT --since 90d, or: notification dismiss CLIENT --since 90d' },
  retrying: { todo: 'nothing: it is tried again' },
  draining: { todo: 'nothing: it is catching up' },
  held: { todo: 'if it may go on: account enable ACCOUNT, or account resume ACCOUNT' },
  paused: { todo: 'if it may go on: registration resume CLIENT' },
  no_url: { todo: 'ask its publisher to register a URL' },
  clear: { todo: 'nothing' },
} satisfies Record<string, Remedy>;
type Remedy = { todo: string; isTheirs?: true };
export type Situation = keyof typeof table;
export const situationTable: Record<Situation, Remedy> = table;
/** Nothing waits with which a failing endpoint could be probed. */
const idle = { todo: 'tell its publisher; its next video is the probe, or: registration test CLIENT' };
export const situations = Object.keys(situationTable) as Situation[];

export interface ClientStatus {
  clientToken: string;
  endpoint: Endpoint;
  situation: Situation;
  todo: string;
  name: string;
  accountId: string;
}

/** Longer than the sweep takes to find what nothing works on (contract, section 3). */
const lateMs = 120_000;

/**
 * Reads the clients that may have a situation, or all while no sweep counts. Client by client, so that broken keys of one client hide no
 * other. @throws if Redis is unavailable
 */
export async function readClients(db: Db): Promise<{ clients: ClientStatus[]; broken: string[] }> {
  const broken = new Set<string>();
  const clients: ClientStatus[] = [];
  const read = async (clientToken: string) => {
    const endpoint = await getEndpoint(db, clientToken);
    if (!endpoint.isConsistent) broken.add(clientToken);
    const client = await getClient(db, clientToken);
    if (client === undefined) return;
    const situation = classify(endpoint);
    const { name, accountId } = client;
    const isIdle = situation === 'failing' && endpoint.owed === 0;
    const { todo: named } = isIdle ? idle : situationTable[situation];
    const todo = named.replaceAll('CLIENT', clientToken).replaceAll('ACCOUNT', accountId);
    clients.push({ clientToken, endpoint, situation, todo, name, accountId });
  };
  const rest = restsBetweenSteps();
  for await (const page of (await isAmissKnown(db)) ? clientsToLookAt(db) : clientTokens(db)) {
    await rest();
    await mapInPages(page, 100, (token) => unlessBroken(read(token), () => void broken.add(token)));
  }
  return { clients, broken: [...broken].sort() };
}

function classify(endpoint: Endpoint): Situation {
  const now = situationNow(endpoint);
  return endpoint.failed > 0 && ['retrying', 'draining', 'clear'].includes(now) ? 'failed' : now;
}

function situationNow(endpoint: Endpoint): Situation {
  const { state, held, waitingReason, overdueMs, owedSince = Infinity } = endpoint;
  if (held) return 'held';
  // An endpoint is late even while it fails, if nobody makes its probe.
  if (waitingReason === 'due' && overdueMs > lateMs) return 'late';
  if (state !== 'active') return state;
  if (waitingReason === 'due' && owedSince < Date.now() - lateMs) return 'draining';
  const { situation } = waits[waitingReason ?? 'in_flight'];
  return situation === 'clear' && endpoint.failures > 0 && endpoint.owed > 0 ? 'retrying' : situation;
}
