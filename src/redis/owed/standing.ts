import { assetSlot, idToBytes } from '../../ids.js';
import type { Db } from '../connection/db.js';
import { clientScript, runScript, text } from '../connection/script.js';
import type { NotificationState } from '../notifications/notifications.js';
import { knownLua } from './knownLua.js';
import { notificationLua } from './notificationLua.js';

/** How a notification stands in Redis: its record beside what is owed, read in one moment. Times are ms. */
export interface Standing {
  notificationId: string;
  /** From the record or as it was asked for; undefined where neither says it. */
  platformId?: string;
  /** Of its record; undefined where there is none. */
  state?: NotificationState;
  acceptedAt?: number;
  /** In the client's list of notifications. */
  listed: boolean;
  /** Its asset is owed by this very notification. */
  owed: boolean;
  owedSince?: number;
  due?: number;
  /** The asset's claim number; 0 where the asset was not given. */
  claim: number;
  /** The asset was claimed last by this notification; false where the asset was not given. */
  lastClaim: boolean;
}

/** The longest that one call may hold up Redis for others: some 100 look-ups in a script take less than 1 ms. */
const atOnce = 100;

/** ARGV from 2: id, asset, bucket, field of each; bucket '' where the asset is not given */
const standing = clientScript(
  `
local found = {now}
for i = 2, #ARGV, 4 do
  local id, asset, bucket, slot = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
  local r = redis.call('HMGET', record(id), 'state', 'asset', 'accepted_at')
  if asset == '' then asset = r[2] or '' end
  local claim, last = 0, ''
  if bucket ~= '' then claim, last = read_known(bucket, slot) end
  local f = flight_of(asset)
  local w = not f and waiting_of(asset) or nil
  local owed = owed_id(asset, f, w) == id
  found[#found + 1] = {
    asset, r[2] and (r[1] or 'waiting') or '', r[3] or '',
    redis.call('ZSCORE', base .. 'notifications', id) and 1 or 0,
    owed and 1 or 0,
    owed and (f and f.since or redis.call('ZSCORE', base .. 'owed-since', asset)) or '',
    owed and (f and string.format('%d', f.lease) or redis.call('ZSCORE', base .. LANES[w.lane], asset)) or '',
    claim, last,
  }
end
return found
`,
  notificationLua,
  knownLua,
);

/** In the order asked. @returns also Redis' time of the last answer, ms */
export async function standingsOf(
  db: Db,
  clientToken: string,
  asked: readonly { notificationId: string; platformId?: string }[],
): Promise<{ standings: Standing[]; now: number }> {
  const standings: Standing[] = [];
  let now = 0;
  for (let i = 0; i < asked.length; i += atOnce) {
    const chunk = asked.slice(i, i + atOnce);
    const args = chunk.flatMap(({ notificationId, platformId }) => {
      if (platformId === undefined) return [notificationId, '', '', ''];
      const { bucket, field } = assetSlot(platformId);
      return [notificationId, platformId, bucket, field];
    });
    const [at, ...answers] = (await runScript(db, standing, clientToken, args)) as [number, ...Answer[]];
    now = at;
    answers.forEach((answer, n) => {
      standings.push(standingOf((chunk[n] as { notificationId: string }).notificationId, answer));
    });
  }
  return { standings, now };
}

type Answer = [Buffer, Buffer, Buffer, number, number, Buffer, Buffer, number, Buffer];

function standingOf(notificationId: string, answer: Answer): Standing {
  const [asset, state, acceptedAt, listed, owed, since, due, claim, last] = answer;
  return {
    notificationId,
    ...(asset.length > 0 && { platformId: text(asset) }),
    ...(state.length > 0 && { state: text(state) as NotificationState }),
    ...(acceptedAt.length > 0 && { acceptedAt: Number(text(acceptedAt)) }),
    listed: listed === 1,
    owed: owed === 1,
    ...(since.length > 0 && { owedSince: Number(text(since)) }),
    ...(due.length > 0 && { due: Number(text(due)) }),
    claim,
    lastClaim: last.length > 0 && last.equals(idToBytes(notificationId)),
  };
}
