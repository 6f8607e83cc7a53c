/**
 * Keeps the index of clients that are owed something. One Redis has one sorted set; a cluster has 256, each in a
 * slot beside those of its clients, so that an unavailable node delays only its own clients, and no key takes every claim.
 */
import type { Db } from '../connection/db.js';
import { clientBase } from '../connection/keys.js';
import { evaluate } from '../connection/library.js';
import { rangeTags, slotOf, tagBeside } from '../connection/slots.js';

/** Writes clients with the present time. */
export async function addToIndex(db: Db, clientTokens: Iterable<string>): Promise<void> {
  const added = new Map<string, string[]>();
  for (const clientToken of clientTokens) {
    const key = keyOf(db, clientToken);
    const tokens = added.get(key) ?? [];
    added.set(key, tokens);
    tokens.push(clientToken);
  }
  await Promise.all([...added].map(([key, tokens]) => evaluate(db, 'announceClaims', [key], tokens)));
}

/** Reads every client of the index, in pages. @param onError called for each part of the index that cannot be read; throws by default */
export async function* indexedClients(
  db: Db,
  onError: (err: unknown) => void = (err) => {
    throw err;
  },
): AsyncGenerator<string[]> {
  for (const key of keysOf(db)) {
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
  const scores = await Promise.all(whereFor(db, clientToken).map((key) => db.redis.zscore(key, clientToken)));
  return scores.some((score) => score !== null);
}

/** Removes a client, unless a claim was announced within `unclaimedMs`. */
export async function dropFromIndex(db: Db, clientToken: string, unclaimedMs: number): Promise<void> {
  const args = [clientToken, unclaimedMs];
  for (const key of whereFor(db, clientToken)) await evaluate(db, 'forgetOwedClient', [key], args);
}

function keyOf(db: Db, clientToken: string): string {
  if (!db.nodes.isCluster) return db.global.owedClients;
  return db.global.owedClientsBeside(tagBeside(slotOf(clientBase(db.prefix, clientToken))));
}

/** A cluster with the keys of a former single Redis has its index too. */
function whereFor(db: Db, clientToken: string): string[] {
  return [...new Set([keyOf(db, clientToken), db.global.owedClients])];
}

function keysOf(db: Db): string[] {
  const { owedClients, owedClientsBeside } = db.global;
  return db.nodes.isCluster ? [owedClients, ...rangeTags().map(owedClientsBeside)] : [owedClients];
}
