/** Makes assets delivered in a span of time owed again, for a receiver that has lost them. */
import { assetSlot } from '../../ids.js';
import type { Db } from '../connection/db.js';
import { runScript } from '../connection/library.js';
import { announceClaims } from '../owed/owedClients.js';
import { type Place, placeArguments, startOf } from './place.js';

/** Read in one script, and made owed in another: a few milliseconds at most. */
const entriesPerScript = 100;
/** The most notifications of a client that are listed (`trim_list`). */
const listedAtMost = 10_000;

export interface Replayed {
  /** Assets that are owed again (or would be). */
  count: number;
  /** Set if deliveries of that time may be missing: the client's list is full, and begins with this acceptance, ms. */
  listedSince?: number;
}

/**
 * Makes each asset with a notification delivered in that time owed again by its newest one, unless it is owed or
 * was delivered after that time. The caller wakes catch-up. `dryRun` only counts.
 * @param range.until is at most now, so that assets delivered because of this call are not owed once more
 */
export async function replayDelivered(
  db: Db,
  clientToken: string,
  range: { since: number; until: number; dryRun: boolean },
): Promise<Replayed> {
  // From here on the sweep knows this client, even if the rest fails.
  if (!range.dryRun) await announceClaims(db, [clientToken]);
  const until = Math.min(range.until, await redisNow(db));
  const seen = new Set<string>();
  let place: Place = startOf('falling');
  let [count, listed, looked] = [0, 0, entriesPerScript];
  while (looked === entriesPerScript) {
    const [score, member] = placeArguments(place);
    const args = [score, member, entriesPerScript, range.since, until];
    const answer = (await runScript(db, 'deliveredPage', clientToken, args)) as [
      number,
      string,
      string,
      string[],
    ];
    looked = answer[0];
    listed += looked;
    if (looked > 0) place = { member: answer[1], score: Number(answer[2]) };
    const delivered = newAmong(answer[3], seen);
    if (delivered.length === 0) continue;
    count += await makeOwed(db, clientToken, delivered, until, range.dryRun);
  }
  const isShort = listed >= listedAtMost && place.score > range.since;
  return { count, ...(isShort && { listedSince: place.score }) };
}

/** Returns the assets that were not seen before, each with the newest of its notifications here. */
function newAmong(
  flat: readonly string[],
  seen: Set<string>,
): [platformId: string, notificationId: string][] {
  const found: [string, string][] = [];
  for (let i = 0; i + 1 < flat.length; i += 2) {
    const [platformId = '', notificationId = ''] = flat.slice(i, i + 2);
    if (seen.has(platformId)) continue;
    seen.add(platformId);
    found.push([platformId, notificationId]);
  }
  return found;
}

async function makeOwed(
  db: Db,
  clientToken: string,
  delivered: [platformId: string, notificationId: string][],
  until: number,
  dryRun: boolean,
): Promise<number> {
  const assets = delivered.flatMap(([platformId, id]) => {
    const { bucket, field } = assetSlot(platformId);
    return [platformId, id, bucket, field];
  });
  return Number(await runScript(db, 'replay', clientToken, [until, dryRun ? 1 : 0, ...assets]));
}

/** Returns the scripts' time, ms: the clock by which ends are written. */
async function redisNow(db: Db): Promise<number> {
  const [seconds, microseconds] = await db.redis.time();
  return Number(seconds) * 1000 + Math.floor(Number(microseconds) / 1000) + db.clockOffsetMs();
}
