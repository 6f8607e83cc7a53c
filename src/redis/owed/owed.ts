/** Keeps the index of clients that are owed something, and reads whether catch-up works on it. */
import { Announced } from '../connection/announced.js';
import type { Db } from '../connection/db.js';
import { evaluate, runScript } from '../connection/runScript.js';
import { script } from '../connection/script.js';

/** Long enough that a claim which announced itself has happened or never will. */
const unclaimedMs = 600_000;

/** So long after it was announced a client is known to be in the index: none is taken off before `unclaimedMs`. */
const announcedMs = unclaimedMs / 2;

/** Clients whose claims this process has announced. */
const announced = new Announced(announcedMs);

/**
 * Announces claims: to be written before the claim itself, so that no owed client is ever missing from the index. A
 * client that was announced lately is not written again. @returns undefined where nothing needs to be written
 */
export function announceClaims(db: Db, clientTokens: Iterable<string>): Promise<void> | undefined {
  const at = Date.now() + db.clockOffsetMs();
  const missing = new Set<string>();
  for (const clientToken of clientTokens) {
    if (announced.isDue(db.redis, clientToken, at)) missing.add(clientToken);
  }
  if (missing.size === 0) return undefined;
  return db.redis
    .zadd(db.global.owedClients, ...[...missing].flatMap((token) => [at, token]))
    .then(() => announced.note(db.redis, missing, at));
}

/** There is no such client: whoever makes up client tokens is not remembered. */
export function forgetAnnouncement(db: Db, clientToken: string): void {
  announced.forget(db.redis, clientToken);
}

/** Every client that may be owed something. */
export async function* owedClients(db: Db): AsyncGenerator<string[]> {
  let cursor = '0';
  do {
    const [next, flat] = await db.redis.zscan(db.global.owedClients, cursor, 'COUNT', 500);
    cursor = next;
    const page: string[] = [];
    for (let i = 0; i < flat.length; i += 2) page.push(flat[i] as string);
    if (page.length > 0) yield page;
  } while (cursor !== '0');
}

/** Assets owed, over all clients. */
export async function owedInAll(db: Db): Promise<number> {
  let sum = 0;
  for await (const page of owedClients(db)) {
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

/** Whether the sweep knows that this client may be owed something. */
export async function isIndexed(db: Db, clientToken: string): Promise<boolean> {
  return (await db.redis.zscore(db.global.owedClients, clientToken)) !== null;
}

/** Takes a client that is owed nothing off the index, unless a claim announced itself lately. */
export async function forgetOwedClient(db: Db, clientToken: string): Promise<void> {
  const before = Date.now() + db.clockOffsetMs() - unclaimedMs;
  await evaluate(db, forget, [db.global.owedClients], [clientToken, before]);
}

const forget = script('forgetOwedClient');

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
