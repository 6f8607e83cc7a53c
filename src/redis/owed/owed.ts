/** Announces claims to the index of clients that are owed something, and reads whether catch-up works on it. */
import type { Redis } from 'ioredis';
import type { Db } from '../connection/db.js';
import { runScript } from '../connection/runScript.js';
import { script } from '../connection/script.js';
import { addToIndex, dropFromIndex, indexedClients } from './owedIndex.js';

/** Long enough that a claim which announced itself has happened or never will. */
const unclaimedMs = 600_000;

/** So long after it was announced a client is known to be in the index: none is taken off before `unclaimedMs`. */
const announcedMs = unclaimedMs / 2;

/**
 * Clients announced by this process since its connection was made, with when (ms): the longest ago first, and none for
 * longer than it counts.
 */
const announced = new WeakMap<Redis, Map<string, number>>();

function announcedBy({ redis, nodes }: Db): Map<string, number> {
  const known = announced.get(redis);
  if (known !== undefined) return known;
  const none = new Map<string, number>();
  announced.set(redis, none);
  // What is being written now may be lost too: it notes itself in the map of before.
  nodes.onLost(() => announced.set(redis, new Map()));
  return none;
}

/**
 * Announces claims: to be written before the claim itself, so that no owed client is ever missing from the index. A
 * client that was announced lately is not written again. @returns undefined where nothing needs to be written
 */
export function announceClaims(db: Db, clientTokens: Iterable<string>): Promise<void> | undefined {
  const at = Date.now() + db.clockOffsetMs();
  const known = announcedBy(db);
  const missing = new Set<string>();
  for (const clientToken of clientTokens) {
    if (at - (known.get(clientToken) ?? Number.NEGATIVE_INFINITY) > announcedMs) missing.add(clientToken);
  }
  if (missing.size === 0) return undefined;
  return addToIndex(db, missing, at).then(() => {
    for (const clientToken of missing) {
      known.delete(clientToken);
      known.set(clientToken, at);
    }
    for (const [clientToken, since] of known) {
      if (at - since <= announcedMs) break;
      known.delete(clientToken);
    }
  });
}

/** There is no such client: whoever makes up client tokens is not remembered. */
export function forgetAnnouncement(db: Db, clientToken: string): void {
  announcedBy(db).delete(clientToken);
}

/** Assets owed, over all clients. */
export async function owedInAll(db: Db): Promise<number> {
  let sum = 0;
  for await (const page of indexedClients(db)) {
    const pipeline = db.redis.pipeline();
    for (const clientToken of page) {
      pipeline.hlen(db.client(clientToken).owed).hlen(db.client(clientToken).flight);
    }
    for (const [err, owed] of (await pipeline.exec()) ?? []) {
      if (err) throw err;
      sum += Number(owed);
    }
  }
  return sum;
}

/** Takes a client that is owed nothing off the index, unless a claim announced itself lately. */
export async function forgetOwedClient(db: Db, clientToken: string): Promise<void> {
  const before = Date.now() + db.clockOffsetMs() - unclaimedMs;
  await dropFromIndex(db, clientToken, before);
}

export interface OwedOverview {
  owed: number;
  /** How long the earliest possible attempt is overdue, ms; negative: it lies ahead. */
  overdueMs: number;
  /** Since catch-up last planned for this client, ms; -1: never. */
  plannedMsAgo: number;
  inFlight: number;
  /** How long the oldest has waited, ms. */
  oldestMs: number;
  /** Each asset that waits has one time since when it is owed and one at which it is due, and nothing else has one. */
  isConsistent: boolean;
}

const overview = script('overview');

export async function owedOverview(db: Db, clientToken: string, retentionMs: number): Promise<OwedOverview> {
  const answer = (await runScript(db, overview, clientToken, [retentionMs])) as [
    number,
    number,
    number,
    number,
    number,
    number,
  ];
  const [owed, overdueMs, plannedMsAgo, inFlight, oldestMs, consistent] = answer;
  return { owed, overdueMs, plannedMsAgo, inFlight, oldestMs, isConsistent: consistent === 1 };
}

const wake = script('wakeCatchUp');

/** Whether catch-up must be woken for something due in `inMs`; if so, it is expected awake by then from now on. */
export async function mustWakeCatchUp(db: Db, clientToken: string, inMs: number): Promise<boolean> {
  return (await runScript(db, wake, clientToken, [Math.max(0, Math.round(inMs))])) === 1;
}

/** After a wake-up that failed: the next one is sent again. */
export async function forgetWakeUp(db: Db, clientToken: string): Promise<void> {
  await db.redis.hdel(db.client(clientToken).endpoint, 'catch_up_until');
}
