/** What an attempt's verdict changes: of its notification, of what is owed, of its endpoint's health. */

/** When a failed attempt is followed by another, and what a failing endpoint gets. */
export interface DeliverySchedule {
  retryScheduleMs: readonly number[];
  retryWindowMs: number;
  failingAfter: number;
  probeScheduleMs: readonly number[];
  suspendAfterMs: number;
}

/** An endpoint is suspended after at least so many failed attempts since its last success (contract, section 3). */
export const suspendMinimumAttempts = 20;

export interface AttemptRecord {
  at: number;
  url: string;
  milliseconds: number;
  status?: number;
  error?: string;
  remote_address?: string;
  response_excerpt?: string;
}

/** How an attempt ended. */
export interface Verdict {
  platformId: string;
  notificationId: string;
  taken: { token: string; generation: number; epoch: number };
  ok: boolean;
  retryAfterMs?: number;
  attempt: AttemptRecord;
  redeliver?: boolean;
}

/** An endpoint's state without the pause that may lie over it. */
export type EndpointHealth = 'active' | 'failing' | 'suspended';

export interface Settled {
  outcome: 'delivered' | 'retry' | 'failed' | 'gone';
  /** Until the next attempt of this notification, where it is still owed. */
  inMs: number;
  /** Failed attempts of this notification so far. */
  failures: number;
  /** What this verdict has changed of the endpoint's health. */
  change?: { from: EndpointHealth; to: EndpointHealth; why: string };
  /** The newer notification of the asset, which has waited for this attempt's end. */
  next?: string;
}

/**
 * Needs `endpointLua` and `notificationLua`, and `q.schedule` where a verdict is a failure. Safe to repeat: a verdict
 * counts once, with its token. v: asset, id, token, generation, epoch, ok, status, error, Retry-After ms, attempt's
 * JSON, random number from 0 to 1, redeliver. `write_waiting` must follow.
 */
export const settleLua = `
-- What verdicts read of the endpoint, read once for all of them that change none of it.
local health_read
local function read_health()
  if not health_read then
    local e = redis.call('HMGET', E, 'generation', 'epoch', 'probe', 'state', 'failures', 'last_success_at')
    health_read = {
      generation = tonumber(e[1] or '0'), epoch = tonumber(e[2] or '0'), probe = e[3], state = e[4] or 'active',
      failures = tonumber(e[5] or '0'), last_success_at = tonumber(e[6] or '0'),
    }
  end
  return health_read
end
local function later(list, step, random)
  return math.ceil(list[math.min(step, #list)] * (1 + 0.1 * random))
end
-- says: what the verdict's answer says of a change
local function become(says, name, reason)
  local from = seen()
  says.entered, says.left, says.why = name, state(), reason
  enter(name)
  note_change(from, reason, 'service')
end
local function settle_success(says, h, same_epoch, probe, redeliver)
  -- To the second is enough for whoever reads it, and saves most writes of a busy endpoint.
  if now - h.last_success_at >= 1000 then
    redis.call('HSET', E, 'last_success_at', now)
    h.last_success_at = now
  end
  if not same_epoch then return end
  if h.state == 'failing' and (probe or redeliver) then
    become(says, 'active', probe and 'a probe succeeded' or 'a redelivery succeeded')
    says.has_recovered = true
    health_read = nil
  elseif h.state == 'active' and h.failures > 0 then
    redis.call('HSET', E, 'failures', 0, 'attempts_failed', 0)
    redis.call('HDEL', E, 'first_failure_at', 'first_failure_clock')
    health_read = nil
  end
end
local function settle_failure(says, h, same_epoch, probe, status, reason_failed, retry_after, random)
  health_read = nil
  redis.call('HSET', E, 'last_failure_at', now, 'last_error', reason_failed, 'last_status', status)
  if retry_after > 0 then
    redis.call('HSET', E, 'not_before', math.max(number('not_before'), now + retry_after))
  end
  -- A verdict from an older epoch is not counted either: what failed before a recovery must not make the next failure the one too many.
  if not same_epoch then return end
  local in_a_row = redis.call('HINCRBY', E, 'failures', 1)
  local failed_attempts = redis.call('HINCRBY', E, 'attempts_failed', 1)
  if redis.call('HSETNX', E, 'first_failure_at', now) == 1 then
    redis.call('HSET', E, 'first_failure_clock', clock())
  end
  if tostring(status) == '410' and h.state ~= 'suspended' then
    become(says, 'suspended', 'it answered 410')
  elseif h.state == 'active' and in_a_row >= q.schedule.failing_after then
    become(says, 'failing', in_a_row .. ' attempts failed in a row')
    redis.call('HSET', E, 'probe_step', 1, 'probe_at', now + later(q.schedule.probe, 1, random))
  elseif h.state == 'failing' and probe then
    local step = redis.call('HINCRBY', E, 'probe_step', 1)
    redis.call('HSET', E, 'probe_at', now + later(q.schedule.probe, step, random))
    redis.call('HDEL', E, 'probe')
    if clock() - number('first_failure_clock') >= q.schedule.suspend_after and failed_attempts >= q.schedule.suspend_attempts then
      become(says, 'suspended', 'it failed for too long, ' .. failed_attempts .. ' attempts')
    end
  end
end
-- changed: names and values that the verdict changes of the record, written at once at its end
local function change(changed, name, value)
  changed[#changed + 1] = name
  changed[#changed + 1] = value
end
local function answer(outcome, in_ms, id, changed, failures, says, newer)
  if #changed > 0 then redis.call('HSET', record(id), unpack(changed)) end
  if says.has_recovered then
    -- Also what an earlier verdict of this call has put off.
    write_waiting()
    pull_forward()
  end
  return {outcome, in_ms, failures, says.entered or '', says.left or '', says.why or '', newer or false}
end
local function settle_attempt(v)
  local asset, id, token, generation, epoch, ok, status, reason_failed, retry_after, line, random, redeliver = unpack(v)
  local f = not to_wait[asset] and flight_of(asset) or nil
  local counted
  if redeliver then counted = redis.call('HDEL', base .. 'resends', token .. ' ' .. id) == 1
  else counted = f ~= nil and f.token == token end
  local w = not f and waiting_of(asset) or nil
  local current = owed_id(asset, f, w) == id
  local r = redis.call('HMGET', record(id), 'attempts', 'failures', 'clock_since', 'accepted_at', 'redeliver_failures',
    'state')
  local exists, failures = r[4], tonumber(r[2] or '0')
  local changed, says = {}, {}
  if counted and exists then
    -- 64 KiB hold the attempts of many days; the oldest go first.
    local lines = r[1] and (r[1] .. '\\n' .. line) or line
    while #lines > 65536 do
      local cut = string.find(lines, '\\n', 1, true)
      if not cut then break end
      lines = string.sub(lines, cut + 1)
    end
    change(changed, 'attempts', lines)
  end
  local h = read_health()
  local same_url, same_epoch = h.generation == generation, h.epoch == epoch
  local last_success = h.last_success_at
  if same_url then
    local probe = h.probe == token .. ' ' .. asset
    if ok then settle_success(says, h, same_epoch, probe, redeliver)
    elseif counted then settle_failure(says, h, same_epoch, probe, status, reason_failed, retry_after, random) end
  end
  local outcome, reason
  if redeliver then
    if ok and same_url or ok and not current then outcome = 'delivered'
    elseif ok then return answer('delivered', -1, id, changed, failures, says)
    else
      local times = tonumber(r[5] or '0') + 1
      change(changed, 'redeliver_failures', times)
      local answered = answer('retry', later(q.schedule.retry, times, random), id, changed, failures, says)
      -- What is owed again meanwhile keeps its record for as long as it is.
      if not current then
        redis.call('EXPIRE', record(id), KEEP_SECONDS)
        if exists then keep_beside(asset, id) end
      end
      return answered
    end
  elseif not current then
    local newer
    if counted then
      -- A newer notification took its place while it was under way, and is due now.
      newer = owed_id(asset, f)
      land(asset, f, math.min(now, tonumber(f.since)))
    end
    -- Settled before, and the answer was lost; or by another attempt.
    local was_delivered = ok and r[6] == 'delivered'
    return answer(was_delivered and 'delivered' or 'gone', -1, id, changed, failures, says, newer)
  elseif ok and same_url then
    outcome = 'delivered'
  elseif not counted then
    -- A late verdict: its lease had ended, and the asset is due by itself or another attempt holds it.
    return answer('retry', f and math.max(f.lease - now, 0) or 0, id, changed, failures, says)
  elseif not same_url then
    land(asset, f, now)
    return answer('retry', 0, id, changed, failures, says)
  else
    failures = failures + 1
    change(changed, 'failures', failures)
    if not r[3] then change(changed, 'clock_since', clock()) end
    local delay = later(q.schedule.retry, failures, random)
    local since = tonumber(r[3] or clock())
    local took_others = last_success > tonumber(r[4] or now)
    if clock() + delay - since > q.schedule.window and state() == 'active' and took_others then
      outcome, reason = 'failed', 'window'
    else
      land(asset, f, now + delay)
      return answer('retry', delay, id, changed, failures, says)
    end
  end
  -- It has ended.
  if f and current and (redeliver or not counted) and f.lease > now then
    -- Another attempt is under way, and keeps its place until it ends.
    f.newer = NOTHING
    write_flight(asset, f)
  elseif f and current then redis.call('HDEL', base .. 'flight', asset)
  elseif current then stop_waiting(asset, w) end
  if exists then
    close(id, changed, outcome, nil, reason)
    -- It ends anew, and outlives those that followed it.
    if redeliver then keep_beside(asset, id) end
    changed = {}
  end
  return answer(outcome, -1, id, changed, failures, says)
end
-- Gives back what was taken and not attempted: it counts as nothing, and is due again then.
local function give_back(asset, token, due)
  local f = flight_of(asset)
  if f and f.token == token then land(asset, f, due) end
end
-- A lease goes on: its attempt has not begun yet. Answers whether it still had it.
local function extend_lease(asset, token)
  local f = flight_of(asset)
  if not f or f.token ~= token then return 0 end
  f.lease = now + q.lease
  write_flight(asset, f)
  return 1
end
`;

/** What `settle_attempt` takes as `v`. */
export function settleArguments(verdict: Verdict): unknown[] {
  return [
    verdict.platformId,
    verdict.notificationId,
    verdict.taken.token,
    verdict.taken.generation,
    verdict.taken.epoch,
    verdict.ok,
    verdict.attempt.status ?? '',
    verdict.attempt.error ?? '',
    verdict.retryAfterMs ?? 0,
    JSON.stringify(verdict.attempt),
    verdict.ok ? 0 : Math.random(),
    verdict.redeliver === true,
  ];
}

/** The schedule as `settle_attempt` reads it. */
export function scheduleArguments(schedule: DeliverySchedule): object {
  return {
    retry: schedule.retryScheduleMs,
    probe: schedule.probeScheduleMs,
    window: schedule.retryWindowMs,
    failing_after: schedule.failingAfter,
    suspend_after: schedule.suspendAfterMs,
    suspend_attempts: suspendMinimumAttempts,
  };
}

type Answer = [
  Settled['outcome'],
  number,
  number,
  EndpointHealth | '',
  EndpointHealth,
  string,
  string | null,
];

/** What `settle_attempt` answered. */
export function settledOf(answer: unknown): Settled {
  const [outcome, inMs, failures, to, from, why, next] = answer as Answer;
  return {
    outcome,
    inMs,
    failures,
    ...(to === '' ? {} : { change: { from, to, why } }),
    ...(next === null || next === '!' ? {} : { next }),
  };
}
