/**
 * Finds every notification of one asset. The known segments of an asset name its last claim, and each record names the
 * previous claim (`before`), so only the asset's own records are read. Records that the chain may not reach are listed in
 * `beside:<asset>` (`keep_beside` of shared/notification.lua).
 */
import { assetSlot, idFromBytes, idOfAnswer } from '../../ids.js';
import type { Db } from '../connection/db.js';
import { runPipeline } from '../connection/pipeline.js';
import { runScript, text } from '../connection/runScript.js';
import { script } from '../connection/script.js';
import type { NotificationState } from './notificationStates.js';
import { byFallingScore, type Place } from './place.js';

/** The number of records of a chain that one call reads, in less than 1 ms. */
const recordsPerCall = 100;

const chain = script('assetChain');

export interface AssetNotification {
  /** Its time of acceptance (ms) and its id. */
  place: Place;
  state: NotificationState;
}

/**
 * Returns those that have a record, newest first; undefined if some that an earlier release claimed without linking
 * may still exist.
 */
export async function notificationsOfAsset(
  db: Db,
  clientToken: string,
  platformId: string,
): Promise<AssetNotification[] | undefined> {
  const keys = db.client(clientToken);
  const { bucket, field } = assetSlot(platformId);
  const [known, beside] = (await runPipeline(
    db.redis.pipeline().hgetBuffer(keys.known(bucket), field).smembers(keys.beside(platformId)),
  )) as [Buffer | null, string[]];
  const found = new Map<string, AssetNotification>();
  const last = idOfAnswer(known?.subarray(4, 20));
  const end = await follow(db, clientToken, last, found);
  if (end === 'first' && found.size < (known?.readUInt32BE(0) ?? 0)) return undefined;
  for (const id of beside) await follow(db, clientToken, id, found);
  return [...found.values()].sort((a, b) => byFallingScore(a.place, b.place));
}

/** Adds a notification and the previous ones to `found`. @returns `gone` if the last of them no longer has a record */
async function follow(
  db: Db,
  clientToken: string,
  from: string | undefined,
  found: Map<string, AssetNotification>,
): Promise<'first' | 'gone'> {
  let id = from;
  while (id !== undefined && !found.has(id)) {
    const answer = await runScript(db, chain, clientToken, [id, recordsPerCall]);
    const [records, isGone] = answer as [[acceptedAt: Buffer, state: Buffer, before: Buffer][], number];
    for (const [acceptedAt, state, before] of records) {
      if (id === undefined || found.has(id)) break;
      const place = { score: Number(text(acceptedAt)), member: id };
      found.set(id, { place, state: text(state) as NotificationState });
      id = before.length > 0 ? idFromBytes(before) : undefined;
    }
    if (isGone === 1) return 'gone';
  }
  return 'first';
}
