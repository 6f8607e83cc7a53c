/** Reads all owed assets and listed notifications of a client, in pieces: for accounting, not for a read path. */
import { assetSlot, idOfAnswer } from '../../ids.js';
import type { Db } from '../connection/db.js';
import { runScript } from '../connection/runScript.js';
import { script } from '../connection/script.js';

export interface OwedAsset {
  platformId: string;
  notificationId: string;
}

const pageSize = 500;

/** Reads a client's owed assets page by page; an asset that changes meanwhile may appear twice. */
export async function* owedAssets(db: Db, clientToken: string): AsyncGenerator<OwedAsset[]> {
  let cursor = '0';
  do {
    const [next, flat] = await db.redis.hscan(db.client(clientToken).owed, cursor, 'COUNT', pageSize);
    cursor = next;
    yield pairsOf(flat);
  } while (cursor !== '0');
}

/** Draws at most `count` of a client's owed assets at random. */
export async function someOwedAssets(db: Db, clientToken: string, count: number): Promise<OwedAsset[]> {
  return pairsOf((await db.redis.hrandfield(db.client(clientToken).owed, count, 'WITHVALUES')) as string[]);
}

function pairsOf(flat: readonly string[]): OwedAsset[] {
  const pairs: OwedAsset[] = [];
  for (let i = 0; i + 1 < flat.length; i += 2) {
    pairs.push({ platformId: flat[i] as string, notificationId: flat[i + 1] as string });
  }
  return pairs;
}

/** Lists assets with a due time or an owed-since that are not owed, with the notification that claimed last. */
export async function strayAssets(
  db: Db,
  clientToken: string,
): Promise<{ platformId: string; notificationId?: string }[]> {
  const keys = db.client(clientToken);
  const strays = new Set<string>();
  for (const key of [keys.owedSince, keys.dueLive, keys.dueBackfill]) {
    let cursor = '0';
    do {
      const [next, flat] = await db.redis.zscan(key, cursor, 'COUNT', pageSize);
      cursor = next;
      const assets = flat.filter((_, i) => i % 2 === 0);
      if (assets.length === 0) continue;
      const owed = await db.redis.hmget(keys.owed, ...assets);
      assets.forEach((asset, i) => {
        if (owed[i] === null) strays.add(asset);
      });
    } while (cursor !== '0');
  }
  return await Promise.all(
    [...strays].map(async (platformId) => {
      const { bucket, field } = assetSlot(platformId);
      const known = await db.redis.hgetBuffer(keys.known(bucket), field);
      const notificationId = idOfAnswer(known?.subarray(4, 20));
      return { platformId, ...(notificationId !== undefined && { notificationId }) };
    }),
  );
}

/** Sizes of a client's owed assets, all read at the same moment. */
export interface OwedSizes {
  owed: number;
  since: number;
  due: number;
  /** Time until the last place in flight is free again, ms. */
  longestLeaseMs: number;
  /** Entries in the list of notifications. */
  listed: number;
  /** When the oldest of them was accepted (ms); 0 if there is none. */
  oldestListedAt: number;
}

const sizes = script('owedSizes');

export async function owedSizes(db: Db, clientToken: string): Promise<OwedSizes> {
  const answer = (await runScript(db, sizes, clientToken, [])) as number[];
  const [owed = 0, since = 0, due = 0, longestLeaseMs = 0, listed = 0, oldestListedAt = 0] = answer;
  return { owed, since, due, longestLeaseMs, listed, oldestListedAt };
}

export interface ListedNotification {
  notificationId: string;
  /** ms */
  acceptedAt: number;
}

/** Reads the listed notifications accepted since then: at most 10,000. */
export async function listedSince(
  db: Db,
  clientToken: string,
  sinceMs: number,
): Promise<ListedNotification[]> {
  const key = db.client(clientToken).notifications;
  return listedOf(await db.redis.zrangebyscore(key, sinceMs, '+inf', 'WITHSCORES'));
}

/** Draws at most `count` listed notifications at random. */
export async function someListed(db: Db, clientToken: string, count: number): Promise<ListedNotification[]> {
  const key = db.client(clientToken).notifications;
  return listedOf((await db.redis.zrandmember(key, count, 'WITHSCORES')) as string[]);
}

function listedOf(flat: readonly string[]): ListedNotification[] {
  const listed: ListedNotification[] = [];
  for (let i = 0; i + 1 < flat.length; i += 2) {
    listed.push({ notificationId: flat[i] as string, acceptedAt: Number(flat[i + 1]) });
  }
  return listed;
}
