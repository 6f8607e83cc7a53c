/** Going through a sorted set page by page while members come and go: a page begins behind a place, not at a position. */
import type { Db } from '../connection/db.js';
import { clientScript, runScript, text } from '../connection/script.js';

/** A score and a member that has it, there or not; `member` '' stands in front of every member of that score. */
export interface Place {
  score: number;
  member: string;
}

export type Direction = 'rising' | 'falling';

/** In front of every member. */
export function startOf(direction: Direction): Place {
  return {
    score: direction === 'rising' ? Number.NEGATIVE_INFINITY : Number.POSITIVE_INFINITY,
    member: '',
  };
}

/** Whether a member is behind a place where scores fall, as the sorted set would have it. */
export function isBehind(one: Place, place: Place): boolean {
  if (one.score !== place.score) return one.score < place.score;
  return place.member === '' || Buffer.compare(Buffer.from(one.member), Buffer.from(place.member)) < 0;
}

/** Sorts by falling scores, those of one score as the sorted set has them. */
export function byFallingScore(a: Place, b: Place): number {
  return isBehind(a, b) ? 1 : isBehind(b, a) ? -1 : 0;
}

/**
 * Lua of a page behind a place: in the order of n lookups for a set of 2^n, however many members share a score.
 * `page_behind` answers members and scores in turn.
 */
export const placeLua = `
-- By bytes, as the sorted set compares: Lua's own < goes by the server's locale.
local function is_less(a, b)
  for i = 1, math.min(#a, #b) do
    local x, y = string.byte(a, i), string.byte(b, i)
    if x ~= y then return x < y end
  end
  return #a < #b
end
local function page_behind(key, direction, score, member, count)
  local is_rising = direction == 'rising'
  local read, low, high = is_rising and 'ZRANGE' or 'ZREVRANGE', nil, nil
  if is_rising then
    low, high = redis.call('ZCOUNT', key, '-inf', '(' .. score), redis.call('ZCOUNT', key, '-inf', score)
  else
    low, high = redis.call('ZCOUNT', key, '(' .. score, '+inf'), redis.call('ZCOUNT', key, score, '+inf')
  end
  if member == '' then high = low end
  while low < high do
    local middle = math.floor((low + high) / 2)
    local there = redis.call(read, key, middle, middle)[1]
    local is_behind
    if is_rising then is_behind = is_less(member, there) else is_behind = is_less(there, member) end
    if is_behind then high = middle else low = middle + 1 end
  end
  return redis.call(read, key, low, low + count - 1, 'WITHSCORES')
end
`;

/** A place as `page_behind` takes it. */
export function placeArguments({ score, member }: Place): [score: string, member: string] {
  return [Number.isFinite(score) ? String(score) : score < 0 ? '-inf' : '+inf', member];
}

/** ARGV: 2 name of the sorted set, 3 direction, 4 score, 5 member, 6 how many */
const page = clientScript(
  'return page_behind(base .. ARGV[2], ARGV[3], ARGV[4], ARGV[5], tonumber(ARGV[6]))',
  placeLua,
);

/** The next members of a sorted set of a client's, at most `count`, with their scores. */
export async function pageBehind(
  db: Db,
  clientToken: string,
  set: 'notifications' | 'owed-since',
  { place, direction, count }: { place: Place; direction: Direction; count: number },
): Promise<Place[]> {
  const args = [set, direction, ...placeArguments(place), count];
  return placesOf((await runScript(db, page, clientToken, args)) as Buffer[]);
}

/** Members and scores in turn, as a script answers them. */
export function placesOf(flat: readonly Buffer[]): Place[] {
  const places: Place[] = [];
  for (let i = 0; i + 1 < flat.length; i += 2) {
    places.push({ member: text(flat[i]), score: Number(text(flat[i + 1])) });
  }
  return places;
}
