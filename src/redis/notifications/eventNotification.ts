/** Finds the notification of an event by the event's id alone. */
import type { Db } from '../connection/db.js';
import { type ListedPage, pageOfListed } from './listed.js';
import { getNotification, type NotificationRecord } from './notifications.js';
import { type Place, startOf } from './place.js';

/** Entries that one script reads, in less than a millisecond; the list has at most 10,000. */
const entriesPerScript = 200;

/**
 * Returns the newest of the 10,000 listed notifications that names the event. Its id cannot be computed here: it
 * is also derived from asset and segments.
 */
export async function notificationOfEvent(
  db: Db,
  clientToken: string,
  eventId: string,
): Promise<NotificationRecord | undefined> {
  let place: Place | undefined = startOf('falling');
  while (place !== undefined) {
    const page: ListedPage = await pageOfListed(
      db,
      clientToken,
      { eventId },
      { place, count: entriesPerScript },
    );
    const [newest] = page.found;
    if (newest !== undefined) return await getNotification(db, clientToken, newest.member);
    place = page.end;
  }
  return undefined;
}
