import type { Db } from '../connection/db.js';
import { clientScript, runScript, text } from '../connection/script.js';
import { endpointLua } from '../records/endpointLua.js';
import { notificationLua } from './notificationLua.js';

/** What keeps a client's deliveries from being made now; `none` where they may be. */
export type Hold = 'none' | 'no_url' | 'paused' | 'held' | 'suspended' | 'failing' | 'not_before';

/** How far a client's deliveries are behind, and what bounds them. Times are ms by Redis' clock. */
export interface Backlog {
  now: number;
  hold: Hold;
  /**
   * Since when the next attempt could have been made, or from when on it can be. While nothing may be sent: when what
   * is owed ends as failed. Undefined where nothing waits.
   */
  dueAt?: number;
  /** Assets that wait and were due before `overdueBefore`. */
  overdue: number;
  overdueBefore: number;
  /** Attempts under way. */
  inFlight: number;
  /** The most attempts that may be under way at once. */
  places: number;
  /** The lowest rate that holds for the oldest of what waits, per second; undefined where none does. */
  perSecond?: number;
  /** When that rate allows the next attempt. */
  nextPlaceAt?: number;
  /** Each asset that waits has one time since when it is owed and one at which it is due, and nothing else has one. */
  isConsistent: boolean;
}

/** ARGV: 2 retention ms, 3 places of a client without a bound of its own, 4 drain rate, 5 overdue ms, 6 overdue before or 0 */
const backlog = clientScript(
  `
local overdue_before = tonumber(ARGV[6])
if overdue_before == 0 then overdue_before = now - tonumber(ARGV[5]) end
local next_at, overdue = math.huge, 0
for _, asset in ipairs(redis.call('HKEYS', base .. 'flight')) do
  local f = flight_of(asset)
  -- Whoever held it is gone: it is due again.
  if f.lease <= now then
    next_at = math.min(next_at, f.lease)
    if f.lease < overdue_before then overdue = overdue + 1 end
  end
end
for _, lane in pairs(LANES) do
  local first = redis.call('ZRANGE', base .. lane, 0, 0, 'WITHSCORES')
  if first[2] then next_at = math.min(next_at, tonumber(first[2])) end
  overdue = overdue + redis.call('ZCOUNT', base .. lane, '-inf', '(' .. string.format('%d', overdue_before))
end
local oldest = tonumber(redis.call('ZRANGE', base .. 'owed-since', 0, 0, 'WITHSCORES')[2] or now)
local expires = oldest + tonumber(ARGV[2])
local hold
if redis.call('HEXISTS', base .. 'registration', 'url') == 0 then hold = 'no_url'
elseif field('held') == '1' then hold = 'held'
elseif field('paused') == '1' then hold = 'paused'
elseif state() == 'suspended' then hold = 'suspended' end
if hold then next_at = next_at < math.huge and expires or next_at
else
  hold = number('not_before') > now and 'not_before' or 'none'
  if state() == 'failing' then
    hold = 'failing'
    next_at = math.max(next_at, number('probe_at'), probe_end(field('probe')) or 0)
  end
  next_at = math.max(math.min(math.max(next_at, number('not_before')), expires), number('recovered_at'))
end
local client = redis.call('HMGET', base .. 'client', 'max_in_flight', 'max_per_second')
local per_second, place_at = tonumber(client[2] or '0'), number('rate_at')
if oldest < number('recovered_at') and (per_second == 0 or tonumber(ARGV[4]) < per_second) then
  per_second, place_at = tonumber(ARGV[4]), number('drain_at')
end
local waiting = redis.call('HLEN', base .. 'owed')
local is_consistent = waiting == redis.call('ZCARD', base .. 'owed-since')
  and waiting == redis.call('ZCARD', base .. 'due:live') + redis.call('ZCARD', base .. 'due:backfill')
return {
  now, hold, next_at < math.huge and math.floor(next_at) or -1, overdue, overdue_before, in_flight(),
  tonumber(client[1] or ARGV[3]), tostring(per_second), math.floor(place_at),
  is_consistent and 1 or 0,
}
`,
  notificationLua,
  endpointLua,
);

export interface BacklogBounds {
  retentionMs: number;
  maxInFlight: number;
  drainPerSecond: number;
}

/**
 * Reads a client's backlog and changes nothing.
 * @param overdueMs what was due so long ago counts as overdue
 * @param overdueBefore in its place: that of an earlier answer, with which this one is compared
 */
export async function readBacklog(
  db: Db,
  clientToken: string,
  { retentionMs, maxInFlight, drainPerSecond }: BacklogBounds,
  overdueMs: number,
  overdueBefore = 0,
): Promise<Backlog> {
  const args = [retentionMs, maxInFlight, drainPerSecond, overdueMs, overdueBefore];
  const answer = (await runScript(db, backlog, clientToken, args)) as unknown[];
  const number = (i: number): number => Number(answer[i]);
  const perSecond = Number(text(answer[7]));
  return {
    now: number(0),
    hold: text(answer[1]) as Hold,
    ...(number(2) >= 0 && { dueAt: number(2) }),
    overdue: number(3),
    overdueBefore: number(4),
    inFlight: number(5),
    places: number(6),
    ...(perSecond > 0 && { perSecond, nextPlaceAt: number(8) }),
    isConsistent: number(9) === 1,
  };
}
