/** How each client stands, and whose turn it is. */
import { setTimeout as sleep } from 'node:timers/promises';
import { deliveryOf } from '../delivery/settings.js';
import { mapInPages } from '../mapInPages.js';
import { type Backlog, readBacklog } from '../store/backlog.js';
import { listClients } from '../store/clients.js';
import { type Endpoint, getEndpoints } from '../store/endpoint.js';
import { oldestLiveOwedAt } from '../store/oldestLive.js';
import { listRegistrations } from '../store/registrations.js';
import type { Operator } from './operator.js';

/**
 * `late`: something could have been sent for more than 2 minutes and nobody sends it. `draining`: what is overdue is
 * sent as fast as the client's bounds allow. The rest is why nothing is sent now; `clear`: nothing is owed or overdue.
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
  registered: boolean;
  endpoint: Endpoint;
  situation: Situation;
  /** How long the next attempt is overdue, ms; 0 where it is not. */
  overdueMs: number;
  /** While it drains: what it was sent per second while we looked. */
  drainedPerSecond?: number;
  oldestLiveOwedAt: number | undefined;
}

/** What is owed and has nobody working on it is picked up within 2 minutes (contract, section 3). */
const lateMs = 120_000;
/** Between two looks at a client that is late. */
const apartMs = 2000;
/** Clients asked about at the same time. */
const atOnce = 100;

/** Takes 2 s more where a client is late: whether it drains shows only over time. */
export async function healthOfClients(operator: Operator): Promise<ClientHealth[]> {
  const db = await operator.db();
  const bounds = deliveryOf(operator.config());
  const clientTokens = (await listClients(db)).map((client) => client.clientToken);
  const registered = new Set((await listRegistrations(db)).map((found) => found.clientToken));
  const endpoints = await getEndpoints(db, clientTokens);
  const pairs = clientTokens.map((clientToken, i) => ({ clientToken, endpoint: endpoints[i] as Endpoint }));
  const clients = await mapInPages(pairs, atOnce, async ({ clientToken, endpoint }) => {
    const isOwed = endpoint.owed > 0;
    const backlog = isOwed ? await readBacklog(db, clientToken, bounds, lateMs) : undefined;
    return {
      clientToken,
      registered: registered.has(clientToken),
      endpoint,
      ...(backlog === undefined ? ofEndpoint(endpoint) : ofBacklog(backlog)),
      backlog,
      oldestLiveOwedAt: isOwed ? await oldestLiveOwedAt(db, clientToken) : undefined,
    };
  });
  const late = clients.filter(({ situation }) => situation === 'late');
  if (late.length > 0) await sleep(apartMs);
  await mapInPages(late, atOnce, async (client) => {
    const before = client.backlog as Backlog;
    const after = await readBacklog(db, client.clientToken, bounds, lateMs, before.overdueBefore);
    Object.assign(client, lateOrDraining(before, after));
  });
  return clients;
}

type Judged = Pick<ClientHealth, 'situation' | 'overdueMs' | 'drainedPerSecond'>;

/** Of a client that is owed nothing. */
function ofEndpoint({ state, held }: Endpoint): Judged {
  if (state === 'active') return { situation: 'clear', overdueMs: 0 };
  return { situation: held ? 'held' : state, overdueMs: 0 };
}

function ofBacklog({ now, hold, dueAt }: Backlog): Judged {
  const overdueMs = Math.max(now - (dueAt ?? now), 0);
  if (overdueMs > lateMs) return { situation: 'late', overdueMs };
  return { situation: hold === 'none' ? 'clear' : hold, overdueMs };
}

/** Of one that was late at the first look. */
function lateOrDraining(before: Backlog, after: Backlog): Judged {
  const judged = ofBacklog(after);
  if (judged.situation !== 'late' || after.hold !== 'none' || !drainsAtItsRate(before, after)) return judged;
  return { ...judged, situation: 'draining', drainedPerSecond: drainedPerSecond(before, after) };
}

/** Whether what holds back the rest is a bound of the client: its rate, or its places while the receiver answers. */
function drainsAtItsRate(before: Backlog, after: Backlog): boolean {
  const { places, perSecond, nextPlaceAt = 0 } = after;
  // Backfill leaves a quarter of the places to live events.
  const full = places > 1 ? places - Math.max(1, Math.floor(places / 4)) : places;
  if (Math.max(before.inFlight, after.inFlight) >= full) return true;
  const drained = before.overdue - after.overdue;
  if (perSecond === undefined) return drained > 0;
  const expected = perSecond * ((after.now - before.now) / 1000);
  // Too few to count: the time of the next one says whether the last one came in its turn.
  return expected < 4 ? nextPlaceAt > after.now - 1000 : drained >= expected / 2;
}

function drainedPerSecond(before: Backlog, after: Backlog): number {
  const drained = Math.max(before.overdue - after.overdue, 0);
  return Math.round((drained / (after.now - before.now)) * 10_000) / 10;
}
