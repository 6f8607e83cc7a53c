/** What a client is owed, wherever it is, page by page. */
import type { Db } from '../connection/db.js';
import { clientScript, runScript, text } from '../connection/script.js';
import {
  byFallingScore,
  isBehind,
  type Place,
  placeArguments,
  placeLua,
  placesOf,
} from '../notifications/place.js';
import { notificationLua } from './notificationLua.js';

/** A notification that waits or is in flight. */
export interface Waiting {
  /** Since when its asset is owed (ms), and the asset: both stay while an attempt begins or ends. */
  place: Place;
  notificationId: string;
  acceptedAt: number;
}

/**
 * ARGV: 2 score, 3 member, 4 how many. Answers {asset and score of the last that was looked at, or nothing where there is
 * no more; asset, id, owed since, accepted at of each that waits; the same of everything in flight}.
 */
const page = clientScript(
  `
local count, waiting, in_flight = tonumber(ARGV[4]), {}, {}
local found = page_behind(base .. 'owed-since', 'falling', ARGV[2], ARGV[3], count)
local function entry(asset, id, since)
  return {asset, id, since, redis.call('HGET', record(id), 'accepted_at') or ''}
end
for i = 1, #found, 2 do
  local id = redis.call('HGET', base .. 'owed', found[i])
  if id then waiting[#waiting + 1] = entry(found[i], id, found[i + 1]) end
end
for _, asset in ipairs(redis.call('HKEYS', base .. 'flight')) do
  local f = flight_of(asset)
  local id = f and owed_id(asset, f)
  if id then in_flight[#in_flight + 1] = entry(asset, id, f.since) end
end
return {#found == 2 * count and {found[#found - 1], found[#found]} or {}, waiting, in_flight}
`,
  notificationLua,
  placeLua,
);

type Entry = [asset: Buffer, id: Buffer, since: Buffer, acceptedAt: Buffer];

/**
 * What is owed since before a place, the latest first, each once: what an attempt holds stands where it would wait. A page
 * has at least `count` where there are as many, and `end` where there may be more.
 */
export async function pageOfWaiting(
  db: Db,
  clientToken: string,
  { place, count }: { place: Place; count: number },
): Promise<{ waiting: Waiting[]; end?: Place }> {
  const answer = await runScript(db, page, clientToken, [...placeArguments(place), count]);
  const [last, waiting, inFlight] = answer as [Buffer[], Entry[], Entry[]];
  const [end] = placesOf(last);
  const held = inFlight
    .map(waitingOf)
    .filter((one) => isBehind(one.place, place) && (end === undefined || !isBehind(one.place, end)));
  return {
    waiting: [...waiting.map(waitingOf), ...held].sort((a, b) => byFallingScore(a.place, b.place)),
    ...(end && { end }),
  };
}

function waitingOf([asset, id, since, acceptedAt]: Entry): Waiting {
  return {
    place: { score: Number(text(since)), member: text(asset) },
    notificationId: text(id),
    acceptedAt: Number(text(acceptedAt)),
  };
}
