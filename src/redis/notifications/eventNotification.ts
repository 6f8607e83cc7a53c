/** Finds the notification of an event by the event's id alone. */
import type { Db } from '../connection/db.js';
import { runTable } from '../connection/runScript.js';
import { script } from '../connection/script.js';
import { getNotification, type NotificationRecord } from './notifications.js';
import { type Place, placeArguments, startOf } from './place.js';

/** Entries that one script reads, in less than a millisecond; the list has at most 10,000. */
const entriesPerScript = 200;

const pageOfEvent = script('pageOfEvent');

/**
 * Returns the newest of the 10,000 listed notifications that names the event. Its id cannot be computed here: it
 * is also derived from asset and segments.
 */
export async function notificationOfEvent(
  db: Db,
  clientToken: string,
  eventId: string,
): Promise<NotificationRecord | undefined> {
  let place: Place = startOf('falling');
  let looked = entriesPerScript;
  while (looked === entriesPerScript) {
    const [score, member] = placeArguments(place);
    const q = { score, member, count: entriesPerScript, event: eventId };
    const [id, count, last, lastScore] = (await runTable(db, pageOfEvent, clientToken, q)) as [
      ...[id: string, count: number, last: string, lastScore: string],
    ];
    if (id !== '') return getNotification(db, clientToken, id);
    looked = count;
    place = { member: last, score: Number(lastScore) };
  }
  return undefined;
}
