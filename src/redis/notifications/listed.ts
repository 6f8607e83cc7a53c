/** The list of a client's newest notifications, page by page. */
import type { Db } from '../connection/db.js';
import { clientScript, runScript } from '../connection/script.js';
import { notificationLua } from '../owed/notificationLua.js';
import type { NotificationState } from './notifications.js';
import { type Place, placeArguments, placeLua, placesOf } from './place.js';

/**
 * ARGV: 2 score, 3 member, 4 how many, 5 state, 6 asset, each '' for any. Answers the last that was looked at, where there
 * may be more, and those that match: ids and scores in turn.
 */
const page = clientScript(
  `
local count, matching = tonumber(ARGV[4]), {}
local found = page_behind(base .. 'notifications', 'falling', ARGV[2], ARGV[3], count)
for i = 1, #found, 2 do
  local r = redis.call('HMGET', record(found[i]), 'asset', 'state')
  if r[1] and (ARGV[5] == '' or ARGV[5] == (r[2] or 'waiting')) and (ARGV[6] == '' or ARGV[6] == r[1]) then
    matching[#matching + 1], matching[#matching + 2] = found[i], found[i + 1]
  end
end
return {#found == 2 * count and {found[#found - 1], found[#found]} or {}, matching}
`,
  notificationLua,
  placeLua,
);

/**
 * Looks at `count` of the list behind a place, newest first: the place of each is its time of acceptance (ms) and its id.
 * Found are those that match and have a record. `end`: the last that was looked at, where there may be more.
 */
export async function pageOfListed(
  db: Db,
  clientToken: string,
  match: { state?: NotificationState; platformId?: string },
  { place, count }: { place: Place; count: number },
): Promise<{ found: Place[]; end?: Place }> {
  const args = [...placeArguments(place), count, match.state ?? '', match.platformId ?? ''];
  const [last, found] = (await runScript(db, page, clientToken, args)) as [Buffer[], Buffer[]];
  const [end] = placesOf(last);
  return { found: placesOf(found), ...(end && { end }) };
}
