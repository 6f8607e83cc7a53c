/** Places in a sorted set: a page begins after a place, not at a position, because members come and go meanwhile. */

/** A score and a member, which need not exist; `member` '' comes before every member of that score. */
export interface Place {
  score: number;
  member: string;
}

/** The place before every member, by falling score. */
export const beginning: Place = { score: Number.POSITIVE_INFINITY, member: '' };

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
  return [Number.isFinite(score) ? String(score) : '+inf', member];
}

/** Reads alternating members and scores from a script's answer. */
export function placesOf(flat: readonly string[]): Place[] {
  const places: Place[] = [];
  for (let i = 0; i + 1 < flat.length; i += 2) {
    places.push({ member: flat[i] as string, score: Number(flat[i + 1]) });
  }
  return places;
}
