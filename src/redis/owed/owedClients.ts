/**
 * Keeps the index of clients that are owed something. One Redis has one sorted set; a cluster has 256, each in a
 * slot beside those of its clients, so that an unavailable node delays only its own clients, and no key takes every claim.
 */
import { Announced } from '../connection/announced.js';
import type { Db } from '../connection/db.js';
import { clientBase } from '../connection/keys.js';
import { evaluate, runScript } from '../connection/library.js';
import { rangeTags, slotOf, tagBeside } from '../connection/slots.js';

/** After this time an announced claim has happened or never will. */
const unclaimedMs = 600_000;

/** For this long an announced client is known to be in the index: none is removed before `unclaimedMs`. */
const announcedMs = unclaimedMs / 2;

/** Clients whose claims this process has announced. */
const announced = new Announced(announcedMs);

/**
 * Announces claims of a client. It is written before the claim itself, so that no owed client is ever missing from the index.
 * A recently announced client is not written again. @returns undefined if nothing needs to be written
 */
export function announceClaims(db: Db, clientToken: string): Promise<void> | undefined {
  // Unlike the machine's clock, this one is never set back.
  const at = performance.now() + db.clockOffsetMs();
  if (!announced.isDue(db, clientToken, at)) return undefined;
  const note = announced.noting(db, at);
  return evaluate(db, 'announceClaims', [indexKey(db, clientToken)], [clientToken]).then(() =>
    note([clientToken]),
  );
}

/** Removes a client that does not exist: made-up client tokens are not kept. */
export function forgetAnnouncement(db: Db, clientToken: string): void {
  announced.forget(db, clientToken);
}

/** Removes a client that is owed nothing, unless a claim was announced recently. */
export async function forgetOwedClient(db: Db, clientToken: string, withinMs = unclaimedMs): Promise<void> {
  for (const key of indexKeys(db, clientToken)) {
    await evaluate(db, 'forgetOwedClient', [key], [clientToken, withinMs]);
  }
}

/** Reads every client of the index, in pages. @param onError called for each part of the index that cannot be read; throws by default */
export async function* indexedClients(
  db: Db,
  onError: (err: unknown) => void = (err) => {
    throw err;
  },
): AsyncGenerator<string[]> {
  const { owedClients, owedClientsBeside } = db.global;
  const keys = db.nodes.isCluster ? [owedClients, ...rangeTags().map(owedClientsBeside)] : [owedClients];
  for (const key of keys) {
    try {
      yield* membersOf(db, key);
    } catch (err) {
      onError(err);
    }
  }
}

async function* membersOf(db: Db, key: string): AsyncGenerator<string[]> {
  let cursor = '0';
  do {
    const [next, flat] = await db.redis.zscan(key, cursor, 'COUNT', 500);
    cursor = next;
    const page = flat.filter((_, i) => i % 2 === 0);
    if (page.length > 0) yield page;
  } while (cursor !== '0');
}

/** Returns whether the sweep knows that this client may be owed something. */
export async function isIndexed(db: Db, clientToken: string): Promise<boolean> {
  const keys = indexKeys(db, clientToken);
  const scores = await Promise.all(keys.map((key) => db.redis.zscore(key, clientToken)));
  return scores.some((score) => score !== null);
}

function indexKey(db: Db, clientToken: string): string {
  if (!db.nodes.isCluster) return db.global.owedClients;
  return db.global.owedClientsBeside(tagBeside(slotOf(clientBase(db.prefix, clientToken))));
}

/** A cluster with the keys of a former single Redis has its index too. */
function indexKeys(db: Db, clientToken: string): string[] {
  return [...new Set([indexKey(db, clientToken), db.global.owedClients])];
}

/** Returns whether catch-up must be woken for something due in `inMs`, and if so notes that it will be awake then. */
export async function mustWakeCatchUp(db: Db, clientToken: string, inMs: number): Promise<boolean> {
  return (await runScript(db, 'setAlarm', clientToken, [Math.max(0, Math.round(inMs))])) === 1;
}

/** Undoes that note after a failed wake-up, so that the next one is sent. */
export async function forgetWakeUp(db: Db, clientToken: string): Promise<void> {
  await db.redis.hdel(db.client(clientToken).endpoint, 'catch_up_until');
}
