/** Reads a sorted set page by page while members come and go: a page begins after a place, not at a position. */
import type { Db } from '../connection/db.js';
import { runScript } from '../connection/library.js';

/** A score and a member, which need not exist; `member` '' comes before every member of that score. */
export interface Place {
  score: number;
  member: string;
}

export type Direction = 'rising' | 'falling';

/** Returns the place before every member. */
export function startOf(direction: Direction): Place {
  return {
    score: direction === 'rising' ? Number.NEGATIVE_INFINITY : Number.POSITIVE_INFINITY,
    member: '',
  };
}

/** Returns whether a member comes after a place by falling score, in the order of the sorted set. */
export function isBehind(one: Place, place: Place): boolean {
  if (one.score !== place.score) return one.score < place.score;
  return place.member === '' || Buffer.compare(Buffer.from(one.member), Buffer.from(place.member)) < 0;
}

/** Sorts by falling scores, and members of one score as the sorted set does. */
export function byFallingScore(a: Place, b: Place): number {
  return isBehind(a, b) ? 1 : isBehind(b, a) ? -1 : 0;
}

/** Returns a place in the form that `page_behind` of lists.lua expects. */
export function placeArguments({ score, member }: Place): [score: string, member: string] {
  return [Number.isFinite(score) ? String(score) : score < 0 ? '-inf' : '+inf', member];
}

/** Reads the next members of one of a client's sorted sets, at most `count`, with their scores. */
export async function pageBehind(
  db: Db,
  clientToken: string,
  set: 'notifications' | 'owed-since',
  { place, direction, count }: { place: Place; direction: Direction; count: number },
): Promise<Place[]> {
  const [score, member] = placeArguments(place);
  return placesOf(
    (await runScript(db, 'setPage', clientToken, [score, member, count, set, direction])) as string[],
  );
}

/** Reads alternating members and scores from a script's answer. */
export function placesOf(flat: readonly string[]): Place[] {
  const places: Place[] = [];
  for (let i = 0; i + 1 < flat.length; i += 2) {
    places.push({ member: flat[i] as string, score: Number(flat[i + 1]) });
  }
  return places;
}
