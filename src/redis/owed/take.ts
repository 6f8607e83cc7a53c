/** The one gate before every POST: whether an asset may be sent now, and the lease under which it is. */

/**
 * Who asks for the attempt: `first` ignores the entry's due time, `retry`, `drain` and `probe` keep to it; `drain` is
 * also held to the drain rate for what waits since before an outage ended, `probe` is the only one that a failing
 * endpoint admits, `redeliver` sends what has ended, whatever is newer.
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

/** An attempt that may be made, under a lease. */
export interface Taken {
  kind: 'taken';
  /** Names this attempt among all of its asset. */
  token: string;
  generation: number;
  epoch: number;
  url: string;
  /** Fields of the client's signing-secrets hash, as stored. */
  secrets: Record<string, string>;
}

/** How an earlier attempt ended, where a notification is found ended. */
export interface EndedAttempt {
  status?: number;
  error?: string;
  milliseconds: number;
}

export type Take =
  | Taken
  /** `inMs`: when it may be asked again; -1 where only a change from outside helps. `failures`, `last`: failed attempts so far and the last of them, where it is not due. */
  | { kind: 'refused'; reason: RefusedReason; inMs: number; failures?: number; last?: EndedAttempt }
  /** Nothing to do any more: delivered, superseded or ended some other way, which `state` says while its record is kept. */
  | { kind: 'gone'; state?: string; last?: EndedAttempt }
  /** Redis has gone back to a moment before this claim: claim again. */
  | { kind: 'reclaim' };

export interface Bounds {
  /** Longer than an attempt can take. */
  leaseMs: number;
  /** Attempts at once of a client that has no bound of its own. */
  maxInFlight: number;
  drainPerSecond: number;
}

/**
 * Needs `endpointLua`, `notificationLua` and `knownLua`, and `q` with `lease`, `bound`, `drain` and `nonce`. The nonce is
 * new for every call and names the attempts that it takes: the same call, repeated because its answer was lost, finds
 * them its own. `write_waiting` must follow.
 */
export const takeLua = `
local needs_wake = 0
-- What a client's events and attempts have in common is read once, however many one script has.
local common_facts
local function common()
  if common_facts then return common_facts end
  local client = redis.call('HMGET', base .. 'client', 'account_id', 'deleted', 'max_in_flight', 'max_per_second')
  local e = redis.call('HMGET', E, 'state', 'paused', 'held', 'not_before', 'probe_at', 'probe', 'generation', 'epoch',
    'rate_at', 'drain_at', 'recovered_at')
  common_facts = {
    is_known = client[1] and not client[2], is_deleted = client[2],
    bound = tonumber(client[3] or q.bound), rate = tonumber(client[4] or '0'),
    url = redis.call('HGET', base .. 'registration', 'url'),
    state = e[1] or 'active', is_paused = e[2] == '1' or e[3] == '1', not_before = tonumber(e[4] or '0'),
    probe_at = tonumber(e[5] or '0'), probe = e[6], generation = tonumber(e[7] or '0'), epoch = tonumber(e[8] or '0'),
    rate_at = e[9], drain_at = e[10], recovered_at = tonumber(e[11] or '0'),
  }
  return common_facts
end
-- A place every 1000/rate ms; what was not used is kept for so long, which is how much more a second may hold.
local function place(at, rate, kept_ms)
  local next_at = math.max(tonumber(at or '0'), now - kept_ms)
  if next_at > now then return nil, math.ceil(next_at - now) end
  return string.format('%.3f', next_at + 1000 / rate), nil
end
-- Later than any time until which catch-up sleeps.
local ANY_TIME = 8640000000000000
-- A client that may not be sent anything now is catch-up's, at a time that is known or once somebody changes something.
local function refuse_all(mode, reason, in_ms)
  if mode == 'first' or mode == 'retry' then
    needs_wake = math.max(needs_wake, wake_by(in_ms < 0 and ANY_TIME or now + in_ms))
  end
  return {reason, in_ms}
end
-- What this call holds by one of its answers: who asks for the same in it waits for that one.
local held_here = {}
-- claim: its number, 0 where it is not known; share: backfill whose turn it is may use every place
local function take_attempt(asset, id, mode, claim, bucket, slot, share)
  local redeliver, token = mode == 'redeliver', q.nonce
  local resend = redeliver and token .. ' ' .. id
  if held_here[resend or id] then return {'leased', q.lease} end
  local f = not to_wait[asset] and flight_of(asset) or nil
  local is_own
  if redeliver then is_own = redis.call('HEXISTS', base .. 'resends', resend) == 1
  else is_own = f and f.token == token and f.id == id and not f.newer end
  local w
  if f and f.lease <= now and not is_own then
    land(asset, f, math.min(now, tonumber(f.since)))
    f = nil
  end
  if not redeliver then
    if not f then w = waiting_of(asset) end
    if owed_id(asset, f, w) ~= id then
      if claim > 0 and read_known(bucket, slot) < claim then return {'reclaim'} end
      local r = redis.call('HMGET', record(id), 'asset', 'state', 'attempts')
      return {'gone', r[1] and (r[2] or 'waiting') or false, r[3] and string.match(r[3], '[^\\n]*$') or false}
    end
  end
  local c = common()
  if not c.url then return refuse_all(mode, 'no_registration', -1) end
  if c.is_paused then return refuse_all(mode, 'paused', -1) end
  if c.state == 'suspended' then return refuse_all(mode, 'suspended', -1) end
  if f and not is_own and not redeliver then return {'leased', f.lease - now} end
  if c.not_before > now then return refuse_all(mode, 'not_before', c.not_before - now) end
  if (mode == 'retry' or mode == 'drain') and w and w.due > now then
    local r = redis.call('HMGET', record(id), 'failures', 'attempts')
    return {'not_due', w.due - now, tonumber(r[1] or '0'), r[2] and string.match(r[2], '[^\\n]*$') or false}
  end
  if c.state == 'failing' and not redeliver then
    -- While a probe is under way, its end is what there is to wait for.
    local other = not is_own and probe_end(c.probe)
    local next_at = math.max(c.probe_at, other or now, now)
    if mode ~= 'probe' or next_at > now then return refuse_all(mode, 'failing', next_at - now) end
  end
  if not is_own then
    c.in_flight = c.in_flight or in_flight()
    local lane, bound = w and w.lane or 'L', c.bound
    -- Backfill leaves a quarter of the places to live events.
    if lane == 'B' and bound > 1 and not share then bound = bound - math.max(1, math.floor(bound / 4)) end
    if c.in_flight >= bound and not c.has_landed then
      c.has_landed = true
      land_expired()
      c.in_flight = in_flight()
    end
    if c.in_flight >= bound then return {'full', 100} end
    local rate_next, drain_next, in_ms
    if c.rate > 0 then
      rate_next, in_ms = place(c.rate_at, c.rate, 50)
      if in_ms then return {'rate', in_ms} end
    end
    if mode == 'drain' and w and w.since < c.recovered_at then
      drain_next, in_ms = place(c.drain_at, q.drain, 100)
      if in_ms then return {'rate', in_ms} end
    end
    if rate_next then
      redis.call('HSET', E, 'rate_at', rate_next)
      c.rate_at = rate_next
    end
    if drain_next then
      redis.call('HSET', E, 'drain_at', drain_next)
      c.drain_at = drain_next
    end
    c.in_flight = c.in_flight + 1
    if not redeliver then
      stop_waiting(asset, w)
      f = {token = token, since = w.since, lane = w.lane, id = id}
      if c.state == 'failing' then
        c.probe = token .. ' ' .. asset
        redis.call('HSET', E, 'probe', c.probe)
      end
    end
  end
  -- The lease of one's own begins anew: its attempt has not begun, or nobody would ask.
  if redeliver then redis.call('HSET', base .. 'resends', resend, now + q.lease)
  else
    f.lease = now + q.lease
    write_flight(asset, f)
  end
  held_here[resend or id] = true
  return {'taken', token, c.generation, c.epoch}
end
local function signing_secrets() return redis.call('HGETALL', base .. 'signing-secrets') end
`;

/** What `take_attempt` answered; `url` and `secrets` count only where it was taken. */
export function takeOf(answer: readonly unknown[], url: string, secrets: Record<string, string>): Take {
  const [kind, second, third, fourth] = answer as [string, ...unknown[]];
  switch (kind) {
    case 'gone':
      return {
        kind,
        ...(typeof second === 'string' && { state: second }),
        ...(typeof third === 'string' && { last: endedAttemptOf(third) }),
      };
    case 'reclaim':
      return { kind };
    case 'taken':
      return {
        kind,
        token: second as string,
        generation: third as number,
        epoch: fourth as number,
        url,
        secrets,
      };
    default:
      return {
        kind: 'refused',
        reason: kind as RefusedReason,
        inMs: second as number,
        ...(typeof third === 'number' && { failures: third }),
        ...(typeof fourth === 'string' && { last: endedAttemptOf(fourth) }),
      };
  }
}

function endedAttemptOf(line: string): EndedAttempt {
  const { status, error, milliseconds } = JSON.parse(line) as EndedAttempt;
  return { milliseconds, ...(status !== undefined && { status }), ...(error !== undefined && { error }) };
}

/** Fields of a hash as a script answers them. */
export function fieldsOf(flat: readonly string[]): Record<string, string> {
  const fields: Record<string, string> = {};
  for (let i = 0; i + 1 < flat.length; i += 2) fields[flat[i] as string] = flat[i + 1] as string;
  return fields;
}
