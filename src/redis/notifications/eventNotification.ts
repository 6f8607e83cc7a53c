/** Finds the notification of an event by the event's id alone. */
import type { Db } from '../connection/db.js';
import { clientScript, runScript, text } from '../connection/script.js';
import { notificationLua } from '../owed/notificationLua.js';
import { getNotification, type NotificationRecord } from './notifications.js';
import { type Place, placeArguments, placeLua, startOf } from './place.js';

/** Looked at in one script, which takes less than a millisecond; the list has 10,000 at most. */
const atOnce = 200;

/**
 * ARGV: 2 score, 3 member, 4 how many, 5 event id. Answers the id of the first that names the event ('' where none does),
 * how many there were, the last of them and its score.
 */
const pageOfEvent = clientScript(
  `
local found = page_behind(base .. 'notifications', 'falling', ARGV[2], ARGV[3], tonumber(ARGV[4]))
for i = 1, #found, 2 do
  if redis.call('HGET', record(found[i]), 'event') == ARGV[5] then return {found[i]} end
end
return {'', #found / 2, found[#found - 1] or '', found[#found] or '0'}
`,
  notificationLua,
  placeLua,
);

/**
 * Returns the newest notification that names the event, of the 10,000 that are listed. Its id cannot be computed here: it
 * is derived from asset and segments too.
 */
export async function notificationOfEvent(
  db: Db,
  clientToken: string,
  eventId: string,
): Promise<NotificationRecord | undefined> {
  let place: Place = startOf('falling');
  let looked = atOnce;
  while (looked === atOnce) {
    const args = [...placeArguments(place), atOnce, eventId];
    const [id, count, member, score] = (await runScript(db, pageOfEvent, clientToken, args)) as [
      ...[id: Buffer, count: number, member: Buffer, score: Buffer],
    ];
    if (text(id) !== '') return getNotification(db, clientToken, text(id));
    looked = count;
    place = { member: text(member), score: Number(text(score)) };
  }
  return undefined;
}
