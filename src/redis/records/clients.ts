/** Clients: the children of an account, each named by its client token. */
import {
  type AccountId,
  type ClientToken,
  isClientToken,
  isNoticesClient,
  newClientToken,
} from '../../ids.js';
import type { Db } from '../connection/db.js';
import { runScript } from '../connection/library.js';
import { pageSize, readHashes, runPipeline } from '../connection/pipeline.js';
import { setHeld } from './endpoint.js';

export interface Client {
  clientToken: ClientToken;
  accountId: AccountId;
  name: string;
  createdAtMs: number;
  maxInFlight?: number;
  maxPerSecond?: number;
}

export class UnknownAccount extends Error {
  override name = 'UnknownAccount';
}

export class UnknownClient extends Error {
  override name = 'UnknownClient';
}

export class ClientTokenTaken extends Error {
  override name = 'ClientTokenTaken';
}

/**
 * Creates a client. A client token is never given out twice, not even after its client was deleted.
 * @throws UnknownAccount, ClientTokenTaken, RangeError for a malformed token
 */
export async function createClient(
  db: Db,
  wanted: { accountId: string; name: string; clientToken?: string },
): Promise<Client> {
  const clientToken = wanted.clientToken ?? newClientToken();
  if (!isClientToken(clientToken)) {
    throw new RangeError('a client token is 1 to 64 of A-Z a-z 0-9 _ -');
  }
  const account = db.global.account(wanted.accountId);
  if ((await db.redis.exists(account)) === 0) throw new UnknownAccount('there is no such account');
  const key = db.client(clientToken).client;
  if ((await db.redis.hsetnx(key, 'account_id', wanted.accountId)) === 0) {
    throw new ClientTokenTaken('this client token was given out before');
  }
  const createdAtMs = Date.now();
  await runPipeline(
    db.redis
      .pipeline()
      .hset(key, { name: wanted.name, created_at: createdAtMs })
      .sadd(db.global.clients, clientToken)
      .sadd(db.global.accountClients(wanted.accountId), clientToken),
  );
  if ((await db.redis.hget(account, 'disabled')) === '1') await setHeld(db, clientToken, true);
  return { clientToken, accountId: wanted.accountId as AccountId, name: wanted.name, createdAtMs };
}

/** Returns a client, also one of notices; undefined if it never existed or was deleted. */
export async function getClient(db: Db, clientToken: string): Promise<Client | undefined> {
  if (!isClientToken(clientToken) && !isNoticesClient(clientToken)) return undefined;
  return parseClient(clientToken, await db.redis.hgetall(db.client(clientToken).client));
}

/** Lists the clients of one account, or all, by client token. */
export async function listClients(db: Db, accountId?: string): Promise<Client[]> {
  const key = accountId === undefined ? db.global.clients : db.global.accountClients(accountId);
  return await readClients(db, (await db.redis.smembers(key)).sort());
}

/** Lists at most `limit` of an account's own clients after `after`, by client token; `next` if there are more. */
export async function pageOfClients(
  db: Db,
  accountId: string,
  { after = '', limit }: { after?: string; limit: number },
): Promise<{ clients: Client[]; next?: string }> {
  const first = await firstBehind(db, db.global.accountClients(accountId), after, limit + 1);
  const page = first.slice(0, limit);
  const clients = await readClients(db, page);
  const last = page.at(-1);
  return { clients, ...(last !== undefined && first.length > limit && { next: last }) };
}

/**
 * Returns the first members of a set after a given one, in order. It reads in pieces and sorts only the members shown:
 * 100,000 members take 80 ms (2 cores), but other commands wait only for one piece.
 */
async function firstBehind(db: Db, key: string, after: string, atMost: number): Promise<string[]> {
  const first: string[] = [];
  let cursor = '0';
  do {
    const [next, members] = await db.redis.sscan(key, cursor, 'COUNT', 1000);
    cursor = next;
    for (const member of members) {
      const last = first.at(atMost - 1);
      if (isNoticesClient(member) || member <= after || (last !== undefined && member >= last)) continue;
      // A scan may return a member twice.
      const at = first.findIndex((other) => other >= member);
      if (first[at] === member) continue;
      first.splice(at < 0 ? first.length : at, 0, member);
      first.length = Math.min(first.length, atMost);
    }
  } while (cursor !== '0');
  return first;
}

async function readClients(db: Db, tokens: readonly string[]): Promise<Client[]> {
  const records = await readHashes(
    db.redis,
    tokens.map((token) => db.client(token).client),
  );
  return records.flatMap((record, i) => parseClient(tokens[i] ?? '', record) ?? []);
}

/** Lists every client token ever given out, in pages; deleted clients may still be owed something. */
export async function* clientTokens(db: Db): AsyncGenerator<string[]> {
  let cursor = '0';
  do {
    const [next, page] = await db.redis.sscan(db.global.clients, cursor, 'COUNT', pageSize);
    cursor = next;
    yield page;
  } while (cursor !== '0');
}

/** Changes a client's bounds; null removes one (the service's default applies again). @throws UnknownClient */
export async function setClient(
  db: Db,
  clientToken: string,
  change: { maxInFlight?: number | null; maxPerSecond?: number | null },
): Promise<Client> {
  if (!(await getClient(db, clientToken))) throw new UnknownClient('there is no such client');
  const key = db.client(clientToken).client;
  const commands = db.redis.pipeline();
  for (const [field, value] of [
    ['max_in_flight', change.maxInFlight],
    ['max_per_second', change.maxPerSecond],
  ] as const) {
    if (value === null) commands.hdel(key, field);
    else if (value !== undefined) commands.hset(key, field, value);
  }
  await runPipeline(commands);
  const client = await getClient(db, clientToken);
  if (!client) throw new UnknownClient('there is no such client');
  return client;
}

function parseClient(clientToken: string, record: Record<string, string>): Client | undefined {
  if (!record.account_id || record.deleted) return undefined;
  return {
    clientToken: clientToken as ClientToken,
    accountId: record.account_id as AccountId,
    name: record.name ?? '',
    createdAtMs: Number(record.created_at ?? 0),
    ...(record.max_in_flight && { maxInFlight: Number(record.max_in_flight) }),
    ...(record.max_per_second && { maxPerSecond: Number(record.max_per_second) }),
  };
}

/** Contract, section 5: one call in 5 s, bursts of 5. */
export const sendEveryMs = 5000;
export const sendBurst = 5;

/**
 * Counts a call of the client that sends something, over all such calls and all processes.
 * @param sends how many to count together, all or none: 1, or the whole burst. A bucket that gets one every 25 s and
 * holds one is equivalent to all 5 of a bucket that gets one every 5 s.
 * @returns 0, or how long the caller must wait, ms
 */
export async function takeSendCall(db: Db, clientToken: string, sends: 1 | 5 = 1): Promise<number> {
  return (await runScript(db, 'takeSend', clientToken, [sendEveryMs * sends, sendBurst / sends])) as number;
}
