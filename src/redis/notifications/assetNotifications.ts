/**
 * Every notification of one asset. The known segments of an asset name its last claim, and each record names the claim
 * before it (`before`), so that they are found without looking at any other's. A record that the chain may not lead to
 * stands in `beside:<asset>` (`keep_beside` of notificationLua.ts).
 */
import { assetSlot, idFromBytes, idOfAnswer } from '../../ids.js';
import type { Db } from '../connection/db.js';
import { runPipeline } from '../connection/pipeline.js';
import { clientScript, runScript, text } from '../connection/script.js';
import { knownLua } from '../owed/knownLua.js';
import { notificationLua } from '../owed/notificationLua.js';
import type { NotificationState } from './notifications.js';
import { byFallingScore, type Place } from './place.js';

/** So many records of a chain in one call, which takes less than 1 ms. */
const atOnce = 100;

/** ARGV: 2 id, 3 how many. Answers {list, whether the last of it has no record any more}: accepted at, state and the bytes of the id before, of it and of those before it. */
const chain = clientScript(
  `
local found, id = {}, ARGV[2]
for _ = 1, tonumber(ARGV[3]) do
  local r = redis.call('HMGET', record(id), 'accepted_at', 'state', 'before')
  if not r[1] then return {found, 1} end
  found[#found + 1] = {r[1], r[2] or 'waiting', r[3] or ''}
  if not r[3] then break end
  id = id_text(r[3])
end
return {found, 0}
`,
  notificationLua,
  knownLua,
);

export interface AssetNotification {
  /** Its time of acceptance (ms) and its id. */
  place: Place;
  state: NotificationState;
}

/**
 * Those of which there is a record, newest first.
 * @returns undefined where some were claimed by a release that did not link them, and may still be there
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

/** Adds a notification, and those before it, to what was found; `gone`: the last of them has no record any more. */
async function follow(
  db: Db,
  clientToken: string,
  from: string | undefined,
  found: Map<string, AssetNotification>,
): Promise<'first' | 'gone'> {
  let id = from;
  while (id !== undefined && !found.has(id)) {
    const answer = await runScript(db, chain, clientToken, [id, atOnce]);
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
