/** The situation of each client. */
import { setTimeout as sleep } from 'node:timers/promises';
import { deliveryOf } from '../../config.js';
import { mapInPages } from '../../mapInPages.js';
import type { Db } from '../../redis/connection/db.js';
import { unlessBroken } from '../../redis/connection/unavailable.js';
import { type Backlog, type BacklogBounds, readBacklog } from '../../redis/owed/backlog.js';
import { oldestLiveOwedAt } from '../../redis/owed/oldestLive.js';
import { getClient } from '../../redis/records/clients.js';
import { type Endpoint, getEndpoint } from '../../redis/records/endpoint.js';
import { getRegistration } from '../../redis/records/registrations.js';
import type { Operator } from '../operator.js';

/**
 * `late`: something could have been sent for more than 2 minutes and is not. `draining`: overdue assets are
 * sent as fast as the client's bounds allow. The others say why nothing is sent now; `clear`: nothing is owed or overdue.
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
  /** How long the next attempt is overdue, ms; 0 if it is not. */
  overdueMs: number;
  /** While it drains: attempts per second between the two looks. */
  drainedPerSecond?: number;
  oldestLiveOwedAt: number | undefined;
}

/** The sweep picks up owed assets that nothing works on within 2 minutes (contract, section 3). */
const lateMs = 120_000;
/** Time between two looks at a late client. */
const apartMs = 2000;
/** Clients read at the same time. */
const concurrency = 100;

export interface Health {
  clients: ClientHealth[];
  /** Clients whose keys cannot be read or contradict each other. */
  broken: string[];
}

/**
 * Reads client by client, so that broken keys of one client hide no other. Takes 2 s more if a client
 * is late, because whether it drains shows only over time.
 * @param tokens deleted clients among them are left out
 * @throws if Redis is unavailable
 */
export async function healthOfClients(operator: Operator, tokens: Iterable<string>): Promise<Health> {
  const db = await operator.db();
  const bounds = deliveryOf(operator.config());
  const broken = new Set<string>();
  const found = await mapInPages([...new Set(tokens)].sort(), concurrency, (clientToken) =>
    unlessBroken(
      () => healthOf(db, bounds, clientToken),
      () => void broken.add(clientToken),
    ),
  );
  const clients = found.flatMap((client) => client ?? []);
  for (const { clientToken, backlog } of clients)
    if (backlog?.isConsistent === false) broken.add(clientToken);
  const late = clients.filter(({ situation }) => situation === 'late');
  if (late.length > 0) await sleep(apartMs);
  await mapInPages(late, concurrency, async (client) => {
    const before = client.backlog as Backlog;
    const { clientToken } = client;
    const lookAgain = async () => {
      const after = await readBacklog(db, clientToken, bounds, lateMs, before.overdueBefore);
      Object.assign(client, lateOrDraining(before, after));
    };
    await unlessBroken(lookAgain, () => void broken.add(clientToken));
  });
  return { clients, broken: [...broken].sort() };
}

/** Returns undefined for a deleted client. */
async function healthOf(db: Db, bounds: BacklogBounds, clientToken: string) {
  const [client, registration, endpoint] = await Promise.all([
    getClient(db, clientToken),
    getRegistration(db, clientToken),
    getEndpoint(db, clientToken),
  ]);
  if (client === undefined) return undefined;
  const isOwed = endpoint.owed > 0;
  const backlog = isOwed ? await readBacklog(db, clientToken, bounds, lateMs) : undefined;
  return {
    clientToken,
    registered: registration !== undefined,
    endpoint,
    ...(backlog === undefined ? ofEndpoint(endpoint) : ofBacklog(backlog)),
    backlog,
    oldestLiveOwedAt: isOwed ? await oldestLiveOwedAt(db, clientToken) : undefined,
  };
}

type Judged = Pick<ClientHealth, 'situation' | 'overdueMs' | 'drainedPerSecond'>;

/** Returns the situation of a client that is owed nothing. */
function ofEndpoint({ state, held }: Endpoint): Judged {
  if (state === 'active') return { situation: 'clear', overdueMs: 0 };
  return { situation: held ? 'held' : state, overdueMs: 0 };
}

function ofBacklog({ now, hold, dueAt }: Backlog): Judged {
  const overdueMs = Math.max(now - (dueAt ?? now), 0);
  if (overdueMs > lateMs) return { situation: 'late', overdueMs };
  return { situation: hold === 'none' ? 'clear' : hold, overdueMs };
}

/** Returns the situation of a client that was late at the first look. */
function lateOrDraining(before: Backlog, after: Backlog): Judged {
  const judged = ofBacklog(after);
  if (judged.situation !== 'late' || after.hold !== 'none' || !drainsAtItsRate(before, after)) return judged;
  return { ...judged, situation: 'draining', drainedPerSecond: drainedPerSecond(before, after) };
}

/** Returns whether a bound of the client delays the rest: its rate, or its places while the receiver answers. */
function drainsAtItsRate(before: Backlog, after: Backlog): boolean {
  const { places, perSecond, nextPlaceAt = 0 } = after;
  // Backfill leaves a quarter of the places to live events.
  const full = places > 1 ? places - Math.max(1, Math.floor(places / 4)) : places;
  if (Math.max(before.inFlight, after.inFlight) >= full) return true;
  const drained = before.overdue - after.overdue;
  if (perSecond === undefined) return drained > 0;
  const expected = perSecond * ((after.now - before.now) / 1000);
  // Too few to count: the time of the next place shows whether the last one was used in time.
  return expected < 4 ? nextPlaceAt > after.now - 1000 : drained >= expected / 2;
}

function drainedPerSecond(before: Backlog, after: Backlog): number {
  const drained = Math.max(before.overdue - after.overdue, 0);
  return Math.round((drained / (after.now - before.now)) * 10_000) / 10;
}
