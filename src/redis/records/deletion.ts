/**
 * Deletes clients, and clears their keys in bounded steps, each safe to repeat: none delays Redis for others, and the sweep
 * continues after a failure. Owed notifications end as `cancelled`; known segments, the name and bounds are deleted immediately; the
 * records of ended notifications, decisions, the list, the endpoint and its changes of state expire at most 14 days later.
 */
import { shared } from '../../constants.js';
import { knownBuckets } from '../../ids.js';
import { type Db, timeAt, toPairs } from '../connection/db.js';
import { evaluate, runScript } from '../connection/library.js';
import { announceChange } from '../owed/owedClients.js';
import { ChangeRefused, getClient } from './clients.js';
import type { StateChange } from './endpoint.js';
import { entryOf } from './nameIndex.js';
import { resetRegistration } from './registrations.js';

const keysPerStep = 500;
/** Assets in one script: some milliseconds of a busy Redis. */
const assetsPerScript = 100;
/** By then a registration or an attempt that began before its client's deletion has ended. */
const clearedAgainMs = 600_000;
/** Of a client's field `deleted`: the deletion is under way, or its keys have been cleared once. */
const [underWay, cleared] = ['1', '2'];

/**
 * Deletes a client: removes its URL and its secrets, and keeps its token taken for good. `continueDeletion`, called by
 * the caller or the sweep, clears its other keys and cancels what it is owed. @throws ChangeRefused
 */
export async function deleteClient(db: Db, clientToken: string): Promise<void> {
  const client = await getClient(db, clientToken);
  if (!client) throw new ChangeRefused('there is no such client');
  // Written first: the sweep clears the client's keys from now on.
  await evaluate(db, 'listWork', [db.global.deletedClients], [clientToken, '', 0]);
  await evaluate(db, 'noteFields', [db.client(clientToken).client], ['deleted', underWay]);
  await announceChange(db, clientToken);
  await resetRegistration(db, clientToken);
  await db.redis.del(db.client(clientToken).signingSecrets);
}

/** Lists deletions whose turn it is, those of which nobody has cleared the keys yet first; `at` (ms): the turn, 0 for the first. */
export async function deletionsDue(db: Db, limit: number) {
  const { deletedClients } = db.global;
  const range = ['-inf', await timeAt(db, deletedClients), 'WITHSCORES', 'LIMIT', 0, limit] as const;
  const due = toPairs(await db.redis.zrangebyscore(deletedClients, ...range));
  return due.map(([clientToken, at]) => ({ clientToken, at: Number(at) }));
}

/**
 * Clears a deleted client's keys; changes nothing for a client that is not deleted.
 * @returns how many notifications were still owed, and are cancelled
 */
export async function clearDeletedClient(db: Db, clientToken: string): Promise<{ cancelled: number }> {
  const keys = db.client(clientToken);
  const [deleted, accountId] = await db.redis.hmget(keys.client, 'deleted', 'account_id');
  if (deleted === null) return { cancelled: 0 };
  await db.redis.srem(db.global.accountClients(accountId ?? ''), clientToken);
  await db.redis.hdel(keys.client, 'name', 'max_in_flight', 'max_per_second', 'quiet_seconds');
  await evaluate(db, 'noteFields', [db.global.clientIndex], [clientToken, entryOf('')]);
  await db.redis.unlink(keys.feed, keys.late, keys.failed, keys.failedAt, keys.failedIds, keys.unlisted);
  const { done: cancelled } = await repeat(db, 'cancelOwed', clientToken, 'operator', '');
  await repeat(db, 'unlinkBeside', clientToken);
  const known = Array.from({ length: knownBuckets }, (_, bucket) => keys.known(bucket.toString(36)));
  while (known.length > 0) await db.redis.unlink(...known.splice(0, keysPerStep));
  for (const key of [keys.notifications, keys.stateChanges, keys.callers, keys.cancelled, keys.endpoint])
    await db.redis.expire(key, shared.recordKeptSeconds, 'LT');
  return { cancelled };
}

/** Clears a deleted client's keys, and once more ten minutes later, when nobody writes them any more: that ends the deletion. */
export async function continueDeletion(db: Db, { clientToken, at }: { clientToken: string; at: number }) {
  const { deletedClients } = db.global;
  const { client } = db.client(clientToken);
  const deleted = await db.redis.hget(client, 'deleted');
  const done = await clearDeletedClient(db, clientToken);
  // One that was cut off between its two notes has deleted nothing.
  if (deleted === cleared || (deleted === null && at > 0)) await db.redis.zrem(deletedClients, clientToken);
  else {
    const againAt = (await timeAt(db, deletedClients)) + clearedAgainMs;
    await evaluate(db, 'listWork', [deletedClients], [clientToken, '', againAt]);
    if (deleted !== null) await evaluate(db, 'noteFields', [client], ['deleted', cleared]);
  }
  return done;
}

/**
 * Cancels what a client of notices is owed; the last step removes its URL and secrets. Safe to repeat.
 * @param url none but this one is removed. @returns `done`: how many are cancelled; `isOther`: it has another URL by now
 */
export const removeNoticesUrl = (
  db: Db,
  clientToken: string,
  url = '',
  by: StateChange['by'] = 'publisher',
) => repeat(db, 'cancelOwed', clientToken, by, url);

/** Runs a step until nothing is left. @returns `done`: the sum of the steps' results */
async function repeat(db: Db, step: 'cancelOwed' | 'unlinkBeside', clientToken: string, ...more: string[]) {
  for (let done = 0; ; ) {
    const args = [assetsPerScript, ...more];
    const [some, hasMore] = await runScript<[number, number]>(db, step, clientToken, args);
    done += some;
    if (hasMore <= 0) return { done, isOther: hasMore < 0 };
  }
}
