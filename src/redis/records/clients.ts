/** Clients: the children of an account, each named by its client token. */
import {
  type AccountId,
  type ClientToken,
  isClientToken,
  isNoticesClient,
  newClientToken,
} from '../../ids.js';
import { mapInPages, restsBetweenSteps } from '../../promises.js';
import { type Db, membersOf } from '../connection/db.js';
import { holdOf, setHeld } from './endpoint.js';
import { entryOf, readIndex } from './nameIndex.js';

export type Client = NonNullable<Awaited<ReturnType<typeof getClient>>>;

/** Thrown when the records do not allow a change. Its message is for people. */
export class ChangeRefused extends Error {
  override name = 'ChangeRefused';
}

/**
 * Creates a client. A client token is never given out twice, not even after its client was deleted.
 * @param wanted.ifAbsent a client of this account with this token is left as it is
 * @param begins is called before the client is created
 * @throws ChangeRefused, RangeError for a malformed token
 */
export async function createClient(
  db: Db,
  wanted: { accountId: string; name: string; clientToken?: string; ifAbsent?: boolean },
  begins?: (clientToken: ClientToken) => Promise<void>,
): Promise<Client> {
  const clientToken = wanted.clientToken ?? newClientToken();
  if (!isClientToken(clientToken)) throw new RangeError('a client token is 1 to 64 of A-Z a-z 0-9 _ -');
  const account = db.global.account(wanted.accountId);
  if ((await db.redis.exists(account)) === 0) throw new ChangeRefused('there is no such account');
  const key = db.client(clientToken).client;
  await db.redis.hsetnx(key, 'account_id', wanted.accountId);
  const [owner, deleted, named] = await db.redis.hmget(key, 'account_id', 'deleted', 'name');
  const taken = () => new ChangeRefused('this client token was given out before');
  if (owner !== wanted.accountId || deleted || (named && !wanted.ifAbsent)) throw taken();
  if (!named) await begins?.(clientToken);
  await Promise.all([
    db.redis.sadd(db.global.clients, clientToken),
    db.redis.sadd(db.global.accountClients(wanted.accountId), clientToken),
    db.redis.hsetnx(db.global.clientIndex, clientToken, entryOf(wanted.name)),
  ]);
  const [disabled, paused] = await db.redis.hmget(account, 'disabled', 'paused');
  const hold = holdOf({ disabled: disabled === '1', paused: paused === '1' });
  if (hold) await setHeld(db, clientToken, hold);
  // Written last: a repeat completes a client without a name, whose creation was cut off.
  const isNew = await db.redis.hsetnx(key, 'name', wanted.name);
  if (isNew === 0 && !wanted.ifAbsent) throw taken();
  return { clientToken, accountId: wanted.accountId as AccountId, name: wanted.name };
}

/** Returns a client or a client of notices; undefined if it never existed or was deleted. */
export async function getClient(db: Db, clientToken: string) {
  if (!isClientToken(clientToken) && !isNoticesClient(clientToken)) return undefined;
  const record = await db.redis.hgetall(db.client(clientToken).client);
  if (!record.account_id || record.deleted) return undefined;
  return {
    clientToken: clientToken as ClientToken,
    accountId: record.account_id as AccountId,
    name: record.name ?? '',
    ...(record.max_in_flight && { maxInFlight: Number(record.max_in_flight) }),
    ...(record.max_per_second && { maxPerSecond: Number(record.max_per_second) }),
    ...(record.quiet_seconds && { quietSeconds: Number(record.quiet_seconds) }),
  };
}

export const listClients = async (db: Db, accountId: string): Promise<Client[]> =>
  readEach(await sortedTokens(db, accountId), (token) => getClient(db, token));

export async function sortedTokens(db: Db, accountId?: string, after = ''): Promise<string[]> {
  const key = accountId === undefined ? db.global.clients : db.global.accountClients(accountId);
  const found: string[] = [];
  for await (const tokens of membersOf(db, key))
    for (const token of tokens) if (token > after) found.push(token);
  return found.sort();
}

/**
 * Lists at most `limit` clients of one account, or of all, after the client token `after`, in order; `next` if there are more.
 * @param asked.only none but these
 * @param read returns what is shown of a client; undefined leaves it out
 */
export async function pageOfClients<T>(
  db: Db,
  asked: {
    accountId?: string | undefined;
    after?: string | undefined;
    limit: number;
    only?: { keys(): Iterable<string> } | undefined;
  },
  read: (client: Client) => Promise<T | undefined>,
) {
  const { limit, only, accountId, after = '' } = asked;
  const tokens = only
    ? [...only.keys()].filter((token) => token > after).sort()
    : await sortedTokens(db, accountId, after);
  const rest = restsBetweenSteps();
  const step = Math.min(limit + 1, 100);
  const found: { token: string; shown: T }[] = [];
  for (let i = 0; i < tokens.length && found.length <= limit; i += step) {
    if (i > 0) await rest();
    const some = await readEach(tokens.slice(i, i + step), async (token) => {
      const client = await getClient(db, token);
      const shown = client && (await read(client));
      return shown && { token, shown };
    });
    found.push(...some);
  }
  const clients = found.slice(0, limit).map(({ shown }) => shown);
  return { clients, next: found.length > limit ? found[limit - 1]?.token : undefined };
}

/** Returns the clients whose name, host or token is meant; undefined while the index is not complete. */
export const findClients = (db: Db, isMeant: (text: string) => boolean) =>
  readIndex(db, [db.global.clientIndex, db.global.clients], (entry, token) => isMeant(`${entry}\n${token}`));

/** Bounds how many records Redis is asked for at a time: other calls of this process wait for the answers. */
const atOnce = 100;

export async function readEach<T>(ids: readonly string[], read: (id: string) => Promise<T | undefined>) {
  const found = await mapInPages(ids, atOnce, read, restsBetweenSteps());
  return found.filter((record) => record !== undefined);
}

/** Lists every client token ever given out, in pages; deleted clients may still be owed something. */
export const clientTokens = (db: Db) => membersOf(db, db.global.clients);

type Bounds = Partial<Record<'max_in_flight' | 'max_per_second' | 'quiet_seconds', number | null>>;

/** Changes a client's bounds; null or 0 removes one (the service's default applies again). @throws ChangeRefused */
export async function setClient(db: Db, clientToken: string, change: Bounds): Promise<Client> {
  const { client: key } = db.client(clientToken);
  for (const [field, value] of Object.entries(change)) {
    if (value) await db.redis.hset(key, field, value);
    else if (value !== undefined) await db.redis.hdel(key, field);
  }
  const client = await getClient(db, clientToken);
  if (!client) throw new ChangeRefused('there is no such client');
  return client;
}
