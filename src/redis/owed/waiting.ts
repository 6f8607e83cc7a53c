/** Reads a client's owed notifications, waiting or in flight, page by page. */
import type { Db } from '../connection/db.js';
import { runScript } from '../connection/library.js';
import { byFallingScore, isBehind, type Place, placeArguments, placesOf } from '../notifications/place.js';

/** A notification that waits or is in flight. */
export interface OwedNotification {
  /** Since when the asset is owed (ms), and the asset's name. An attempt changes neither. */
  place: Place;
  notificationId: string;
  acceptedAt: number;
}

type Entry = [asset: string, id: string, since: string, acceptedAt: string];

/**
 * Reads the owed assets after a place, the latest first, each once; an asset in flight has the place where it would wait.
 * A page has at least `count` entries if there are as many, and `end` if there may be more.
 */
export async function pageOfWaiting(
  db: Db,
  clientToken: string,
  { place, count }: { place: Place; count: number },
): Promise<{ waiting: OwedNotification[]; end?: Place }> {
  const answer = await runScript(db, 'waitingPage', clientToken, [...placeArguments(place), count]);
  const [last, waiting, inFlight] = answer as [string[], Entry[], Entry[]];
  const [end] = placesOf(last);
  const held = inFlight
    .map(waitingOf)
    .filter((one) => isBehind(one.place, place) && (end === undefined || !isBehind(one.place, end)));
  return {
    waiting: [...waiting.map(waitingOf), ...held].sort((a, b) => byFallingScore(a.place, b.place)),
    ...(end && { end }),
  };
}

function waitingOf([asset, id, since, acceptedAt]: Entry): OwedNotification {
  return {
    place: { score: Number(since), member: asset },
    notificationId: id,
    acceptedAt: Number(acceptedAt),
  };
}
