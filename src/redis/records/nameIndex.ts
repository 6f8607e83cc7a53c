/**
 * What lists find accounts and clients by, in one hash each, so that none reads every record. An entry is a hint: who reads it looks at
 * the record too. The sweep completes and corrects the entries of clients.
 */
import { restsBetweenSteps } from '../../promises.js';
import { type Db, toPairs } from '../connection/db.js';

const entriesPerStep = 1000;

/** Returns the entries that are meant, by their ids; undefined if the index has less than the set of all ids. */
export async function readIndex(
  { redis }: Db,
  [index, all]: readonly [index: string, all: string],
  isMeant: (entry: string, id: string) => boolean,
): Promise<Map<string, string> | undefined> {
  if ((await redis.hlen(index)) < (await redis.scard(all))) return undefined;
  const found = new Map<string, string>();
  const rest = restsBetweenSteps();
  for await (const flat of redis.hscanStream(index, { count: entriesPerStep })) {
    for (const [id, entry] of toPairs(flat as string[])) if (isMeant(entry, id)) found.set(id, entry);
    await rest();
  }
  return found;
}

const hostOf = (url: string): string => url && new URL(url).host;

/** What a client is found by, in one entry. */
export const entryOf = (name: string, host = ''): string => `${name}\n${host}`;

/** Notes under which name and host a client is found. @param url '': it has none */
export async function indexClient(db: Db, clientToken: string, url: string): Promise<void> {
  const name = await db.redis.hget(db.client(clientToken).client, 'name');
  await db.redis.hset(db.global.clientIndex, clientToken, entryOf(name ?? '', hostOf(url)));
}

/** Returns whether an entry says of a client what its record does. */
export const isIndexed = (entry: string | null | undefined, url: string): boolean =>
  entry?.slice(entry.lastIndexOf('\n') + 1) === hostOf(url);
