/** Makes what was delivered in a time owed again: for a receiver that has lost it. */
import { assetSlot } from '../../ids.js';
import type { Db } from '../connection/db.js';
import { clientScript, runScript, runTable, tableScript, text } from '../connection/script.js';
import { knownLua } from '../owed/knownLua.js';
import { notificationLua } from '../owed/notificationLua.js';
import { announceClaims } from '../owed/owed.js';
import { type Place, placeArguments, placeLua, startOf } from './place.js';

/** Looked at together in one script, and made owed together in another: a few milliseconds at most. */
const atOnce = 100;
/** As many notifications of a client are listed (`trim_list`). */
const listedAtMost = 10_000;

/**
 * A page of the list, newest first. ARGV: 2 score, 3 member, 4 how many, 5 since, 6 until. Answers how many there were, the
 * last of them and its score, and those delivered in that time: asset and id in turn.
 */
const deliveredPage = clientScript(
  `
local found, delivered = page_behind(base .. 'notifications', 'falling', ARGV[2], ARGV[3], tonumber(ARGV[4])), {}
for i = 1, #found, 2 do
  local r = redis.call('HMGET', record(found[i]), 'asset', 'state', 'ended_at')
  if r[1] and r[2] == 'delivered' and tonumber(r[3]) >= tonumber(ARGV[5]) and tonumber(r[3]) <= tonumber(ARGV[6]) then
    delivered[#delivered + 1], delivered[#delivered + 2] = r[1], found[i]
  end
end
return {#found / 2, found[#found - 1] or '', found[#found] or '0', delivered}
`,
  notificationLua,
  placeLua,
);

/**
 * Makes assets owed by their newest notifications, unless they are owed, or were delivered after that time.
 *
 * q: until (ms), dry_run, assets: lists of asset, id of a notification that was delivered, bucket. Bytes of each: its field
 * in the bucket (8). Answers how many. Safe to repeat: what is owed is left as it is.
 */
const replay = tableScript(
  `
is_empty.flight = redis.call('HLEN', base .. 'flight') == 0
is_empty.waiting = redis.call('HLEN', base .. 'owed') == 0
local chosen = {}
for _, a in ipairs(q.assets) do
  local asset, id, bucket = unpack(a)
  local slot = bytes(8)
  local f = flight_of(asset)
  if not owed_id(asset, f, not f and waiting_of(asset) or nil) then
    local _, last = read_known(bucket, slot)
    local newest = id_text(last)
    if newest and redis.call('EXISTS', record(newest)) == 1 then id = newest end
    local r = redis.call('HMGET', record(id), 'state', 'ended_at')
    local is_told = r[1] == 'delivered' and tonumber(r[2]) > q['until']
    if r[1] and not is_told then chosen[#chosen + 1] = {asset, id} end
  end
end
if q.dry_run then return #chosen end
for _, c in ipairs(chosen) do owe(c[1], c[2], 'B') end
write_waiting()
for _, c in ipairs(chosen) do
  local key = record(c[2])
  redis.call('HDEL', key, 'state', 'ended_at', 'reason', 'failures', 'clock_since')
  redis.call('HSET', key, 'priority', 'backfill')
  redis.call('PERSIST', key)
end
return #chosen
`,
  notificationLua,
  knownLua,
);

export interface Replayed {
  /** Assets that are owed again (or would be). */
  count: number;
  /** Set where deliveries of that time may be forgotten: the client's list is full, and begins with this acceptance, ms. */
  listedSince?: number;
}

/**
 * Each asset of which a notification was delivered in that time is owed again by its newest one, unless it is owed, or was
 * delivered after that time. The caller wakes catch-up. `dryRun` only counts.
 * @param range.until counts up to now at most, so that what this call itself has delivered is not owed once more
 */
export async function replayDelivered(
  db: Db,
  clientToken: string,
  range: { since: number; until: number; dryRun: boolean },
): Promise<Replayed> {
  // Whatever breaks off below, the sweep knows of this client.
  if (!range.dryRun) await announceClaims(db, [clientToken]);
  const until = Math.min(range.until, await redisNow(db));
  const seen = new Set<string>();
  let place: Place = startOf('falling');
  let [count, listed, looked] = [0, 0, atOnce];
  while (looked === atOnce) {
    const args = [...placeArguments(place), atOnce, range.since, until];
    const answer = (await runScript(db, deliveredPage, clientToken, args)) as [
      number,
      Buffer,
      Buffer,
      Buffer[],
    ];
    looked = answer[0];
    listed += looked;
    if (looked > 0) place = { member: text(answer[1]), score: Number(text(answer[2])) };
    const delivered = newAmong(answer[3], seen);
    if (delivered.length > 0) count += await makeOwed(db, clientToken, delivered, until, range.dryRun);
  }
  const isShort = listed >= listedAtMost && place.score > range.since;
  return { count, ...(isShort && { listedSince: place.score }) };
}

/** Assets that were not seen before, each with the newest of its notifications among these. */
function newAmong(
  flat: readonly Buffer[],
  seen: Set<string>,
): [platformId: string, notificationId: string][] {
  const found: [string, string][] = [];
  for (let i = 0; i + 1 < flat.length; i += 2) {
    const platformId = text(flat[i]);
    if (seen.has(platformId)) continue;
    seen.add(platformId);
    found.push([platformId, text(flat[i + 1])]);
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
  const slots = delivered.map(([platformId]) => assetSlot(platformId));
  const assets = delivered.map((one, i) => [...one, slots[i]?.bucket]);
  const fields = slots.map(({ field }) => field);
  return Number(await runTable(db, replay, clientToken, { until, dry_run: dryRun, assets }, fields));
}

/** As the scripts see it, ms: the clock by which ends are written. */
async function redisNow(db: Db): Promise<number> {
  const [seconds, microseconds] = await db.redis.time();
  return Number(seconds) * 1000 + Math.floor(Number(microseconds) / 1000) + db.clockOffsetMs();
}
