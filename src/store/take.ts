import { assetSlot } from '../ids.js';
import type { Db } from './db.js';
import { endpointLua } from './endpointLua.js';
import { knownLua, notificationLua } from './notificationLua.js';
import { clientScript, runScript, text } from './script.js';

/**
 * Who asks for the attempt: `first` ignores the entry's due time, `retry` and `drain` keep it (`drain` is also
 * held to the drain rate), `probe` is the only one that a failing endpoint admits, `redeliver` sends what has
 * ended, whatever is newer.
 */
export type TakeMode = 'first' | 'retry' | 'drain' | 'probe' | 'redeliver';

export type RefusedReason =
  | 'no_registration'
  | 'paused'
  | 'suspended'
  | 'failing'
  | 'leased'
  | 'not_before'
  | 'not_due'
  | 'rate'
  | 'full';

export interface Taken {
  kind: 'taken';
  /** Names this attempt among all of its asset: when its lease ends (ms, to the microsecond). */
  token: string;
  generation: number;
  epoch: number;
  url: string;
  /** Fields of the client's signing-secrets hash, as stored. */
  secrets: Record<string, string>;
}

export type Take =
  | Taken
  /** `inMs`: when it may be asked again; -1 where only a change from outside helps. */
  | { kind: 'refused'; reason: RefusedReason; inMs: number }
  /** Nothing to do any more: delivered, superseded or ended some other way, which `state` says while its record is kept. */
  | { kind: 'gone'; state?: string }
  /** Redis lost its last second and this claim with it: claim again. */
  | { kind: 'reclaim' };

/**
 * Lua of the one gate before every POST (DESIGN rule 3). Needs `endpointLua`, `notificationLua` and `knownLua`.
 * What all attempts of a client have in common is read once, however many one script takes.
 */
export const takeLua = `
local shared = {}
-- A place every 1000/rate ms; what was not used is kept for so long, which is how much more a second may hold.
local function place(at, rate, kept_ms)
  local next_at = math.max(tonumber(at or '0'), now - kept_ms)
  if next_at > now then return nil, next_at end
  return string.format('%.3f', next_at + 1000 / rate), nil
end
-- wanted: the claim's number, 0 where it is not known
-- lost_since: leases granted from then on are those of a call whose answer was lost, and are taken over; nil for none
local function take_attempt(asset, id, mode, lease_ms, default_bound, drain_rate, wanted, bucket, slot, lost_since)
  local redeliver = mode == 'redeliver'
  if not redeliver and redis.call('HGET', base .. 'owed', asset) ~= id then
    if wanted > 0 and read_known(bucket, slot) < wanted then return {'reclaim'} end
    return {'gone', redis.call('HGET', record(id), 'state')}
  end
  if not shared.endpoint then
    shared.url = redis.call('HGET', base .. 'registration', 'url')
    shared.endpoint = redis.call('HMGET', E, 'state', 'paused', 'held', 'not_before', 'probe_at', 'probe', 'generation', 'epoch', 'rate_at', 'drain_at')
  end
  local e = shared.endpoint
  if not shared.url then return {'no_registration', -1} end
  if e[2] == '1' or e[3] == '1' then return {'paused', -1} end
  if e[1] == 'suspended' then return {'suspended', -1} end
  local lease = lease_end(asset)
  local is_own = lease and lost_since and lease >= lost_since + lease_ms - 1
  if lease and not redeliver and not is_own then return {'leased', lease - now} end
  local not_before = tonumber(e[4] or '0')
  if not_before > now then return {'not_before', not_before - now} end
  local lane = lane_of(asset)
  if mode == 'retry' or mode == 'drain' then
    local due = tonumber(redis.call('ZSCORE', base .. lane, asset) or '0')
    if due > now then return {'not_due', due - now} end
  end
  if e[1] == 'failing' and not redeliver then
    local probe_at = tonumber(e[5] or '0')
    if mode ~= 'probe' or probe_at > now then return {'failing', math.max(probe_at - now, 0)} end
    local other = probe_end(e[6])
    if other then return {'failing', other - now} end
  end
  if not shared.settings then
    redis.call('ZREMRANGEBYSCORE', base .. 'in-flight', '-inf', now)
    shared.settings = redis.call('HMGET', base .. 'client', 'max_in_flight', 'max_per_second')
    shared.in_flight = redis.call('ZCARD', base .. 'in-flight')
  end
  local bound = tonumber(shared.settings[1] or default_bound)
  -- Backfill leaves a quarter of the places to live events.
  if lane == 'due:backfill' and bound > 1 then bound = bound - math.max(1, math.floor(bound / 4)) end
  if shared.in_flight >= bound and not is_own then
    local first = redis.call('ZRANGE', base .. 'in-flight', 0, 0, 'WITHSCORES')
    return {'full', math.max(1, math.ceil((first[2] or now) - now))}
  end
  local rate_next, drain_next, wait
  if shared.settings[2] then
    rate_next, wait = place(e[9], tonumber(shared.settings[2]), 50)
    if wait then return {'rate', math.ceil(wait - now)} end
  end
  if mode == 'drain' then
    drain_next, wait = place(e[10], drain_rate, 100)
    if wait then return {'rate', math.ceil(wait - now)} end
  end
  if rate_next then
    redis.call('HSET', E, 'rate_at', rate_next)
    e[9] = rate_next
  end
  if drain_next then
    redis.call('HSET', E, 'drain_at', drain_next)
    e[10] = drain_next
  end
  -- To the microsecond: no two scripts run in the same one, so the end of a lease names the attempt.
  local token = string.format('%.3f', now + lease_ms - 1 + time[2] % 1000 / 1000)
  redis.call('ZADD', base .. 'in-flight', token, redeliver and '\\n' .. token or asset)
  shared.in_flight = shared.in_flight + 1
  if not redeliver then
    redis.call('ZADD', base .. lane, math.ceil(token), asset)
    put_off[asset] = nil
    if e[1] == 'failing' then
      e[6] = token .. ' ' .. asset
      redis.call('HSET', E, 'probe', e[6])
    end
  end
  return {'taken', tonumber(e[7] or '0'), tonumber(e[8] or '0'), token}
end
local function signing_secrets() return redis.call('HGETALL', base .. 'signing-secrets') end
`;

/**
 * ARGV: 2 asset, 3 id, 4 lease ms, 5 mode, 6 default in-flight bound, 7 claim number (0: not known), 8 bucket, 9 field,
 * 10 drain rate per second
 */
const take = clientScript(
  `
local answer = take_attempt(ARGV[2], ARGV[3], ARGV[5], tonumber(ARGV[4]), tonumber(ARGV[6]), tonumber(ARGV[10]),
  tonumber(ARGV[7]), ARGV[8], ARGV[9])
if answer[1] == 'taken' then
  answer[5] = shared.url
  answer[6] = signing_secrets()
end
return answer
`,
  endpointLua,
  notificationLua,
  knownLua,
  takeLua,
);

export interface TakeRequest {
  clientToken: string;
  platformId: string;
  notificationId: string;
  mode: TakeMode;
  /** Longer than an attempt can take. */
  leaseMs: number;
  maxInFlight: number;
  drainPerSecond: number;
  /** The claim's number where the asker knows it. */
  claim?: number;
}

export async function takeAttempt(db: Db, request: TakeRequest): Promise<Take> {
  const slot = assetSlot(request.platformId);
  const answer = (await runScript(db, take, request.clientToken, [
    request.platformId,
    request.notificationId,
    request.leaseMs,
    request.mode,
    request.maxInFlight,
    request.claim ?? 0,
    slot.bucket,
    slot.field,
    request.drainPerSecond,
  ])) as [Buffer, number, number, Buffer, Buffer, Buffer[]];
  return takeOf(answer, text(answer[4]), answer[5]);
}

/** What `take_attempt` answered; `url` and `secrets` count only where it was taken. */
export function takeOf(answer: readonly unknown[], url: string, secrets: readonly Buffer[] = []): Take {
  const kind = text(answer[0]);
  switch (kind) {
    case 'gone':
      return answer[1] === null || answer[1] === undefined ? { kind } : { kind, state: text(answer[1]) };
    case 'reclaim':
      return { kind };
    case 'taken':
      return {
        kind,
        generation: Number(answer[1]),
        epoch: Number(answer[2]),
        token: text(answer[3]),
        url,
        secrets: fieldsOf(secrets),
      };
    default:
      return { kind: 'refused', reason: kind as RefusedReason, inMs: Number(answer[1]) };
  }
}

function fieldsOf(flat: readonly Buffer[]): Record<string, string> {
  const fields: Record<string, string> = {};
  for (let i = 0; i + 1 < flat.length; i += 2) fields[text(flat[i])] = text(flat[i + 1]);
  return fields;
}
