/** Reads the list of a client's newest notifications, page by page. */
import type { Db } from '../connection/db.js';
import { runScript } from '../connection/library.js';
import type { NotificationState } from './notificationStates.js';
import { type Place, placeArguments, placesOf } from './place.js';

export interface ListedPage {
  /** The time of acceptance (ms) and the id of each match, the newest first. */
  found: Place[];
  /** The last one read, if there may be more. */
  end?: Place;
}

/** Reads `count` notifications of the list after a place, newest first; returns those that match and have a record. */
export async function pageOfListed(
  db: Db,
  clientToken: string,
  match: { state?: NotificationState; platformId?: string; eventId?: string },
  { place, count }: { place: Place; count: number },
): Promise<ListedPage> {
  const [score, member] = placeArguments(place);
  const { state = '', platformId: asset = '', eventId: event = '' } = match;
  const [last, found] = (await runScript(db, 'listedPage', clientToken, [
    ...[score, member, count, state, asset, event],
  ])) as [string[], string[]];
  const [end] = placesOf(last);
  return { found: placesOf(found), end };
}
