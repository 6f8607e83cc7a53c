import type { Db } from './db.js';
import { endpointLua } from './endpointLua.js';
import { notificationLua } from './notificationLua.js';
import { clientScript, runScript, text } from './script.js';
import type { Taken } from './take.js';

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

export interface Verdict {
  clientToken: string;
  platformId: string;
  notificationId: string;
  taken: Pick<Taken, 'token' | 'generation' | 'epoch'>;
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
}

/**
 * One attempt's verdict (DESIGN rule 4). Safe to repeat: it counts once, with its token.
 *
 * ARGV: 2 asset, 3 id, 4 token, 5 generation, 6 epoch, 7 ok, 8 status, 9 error, 10 Retry-After ms, 11 attempt's JSON,
 * 12 schedules' JSON, 13 a random number from 0 to 1, 14 redeliver
 */
const settle = clientScript(
  `
local asset, id, token, ok = ARGV[2], ARGV[3], ARGV[4], ARGV[7] == '1'
local redeliver = ARGV[14] == '1'
local place = redeliver and '\\n' .. token or asset
local counted = tonumber(redis.call('ZSCORE', base .. 'in-flight', place) or '0') == tonumber(token)
if counted then redis.call('ZREM', base .. 'in-flight', place) end
local exists = redis.call('EXISTS', record(id)) == 1
local r = redis.call('HMGET', record(id), 'attempts', 'failures', 'clock_since', 'accepted_at', 'redeliver_failures')
local failures = tonumber(r[2] or '0')
-- What this verdict changes of the record: names and values, written at once at its end.
local changed = {}
local function change(name, value)
  changed[#changed + 1] = name
  changed[#changed + 1] = value
end
if counted and exists then
  -- 64 KiB hold the attempts of many days; the oldest go first.
  local lines = r[1] and (r[1] .. '\\n' .. ARGV[11]) or ARGV[11]
  while #lines > 65536 do
    local cut = string.find(lines, '\\n', 1, true)
    if not cut then break end
    lines = string.sub(lines, cut + 1)
  end
  change('attempts', lines)
end
local e = redis.call('HMGET', E, 'generation', 'epoch', 'probe', 'state', 'failures', 'last_success_at')
local same_url = tonumber(e[1] or '0') == tonumber(ARGV[5])
local same_epoch = tonumber(e[2] or '0') == tonumber(ARGV[6])
local health = e[4] or 'active'
local last_success = tonumber(e[6] or '0')
local current = redis.call('HGET', base .. 'owed', asset) == id
local entered, left, why = '', '', ''
local function become(name, reason)
  local from = seen()
  entered, left, why = name, state(), reason
  enter(name)
  note_change(from, reason, 'service')
end
local schedules = not ok and cjson.decode(ARGV[12]) or nil
local function later(list, step)
  return math.ceil(list[math.min(step, #list)] * (1 + 0.1 * tonumber(ARGV[13])))
end
if same_url then
  local probe = e[3] == token .. ' ' .. asset
  if ok then
    -- To the second is enough for whoever reads it, and saves most writes of a busy endpoint.
    if now - last_success >= 1000 then redis.call('HSET', E, 'last_success_at', now) end
    if same_epoch then
      if health == 'failing' and (probe or redeliver) then
        become('active', probe and 'a probe succeeded' or 'a redelivery succeeded')
        pull_forward()
      elseif health == 'active' and tonumber(e[5] or '0') > 0 then
        redis.call('HSET', E, 'failures', 0, 'attempts_failed', 0)
        redis.call('HDEL', E, 'first_failure_at', 'first_failure_clock')
      end
    end
  elseif counted then
    redis.call('HSET', E, 'last_failure_at', now, 'last_error', ARGV[9], 'last_status', ARGV[8])
    local retry_after = tonumber(ARGV[10])
    if retry_after > 0 then
      redis.call('HSET', E, 'not_before', math.max(number('not_before'), now + retry_after))
    end
    -- A verdict from an older epoch is not counted either: what failed before a recovery must not make the next failure the one too many.
    if same_epoch then
      local in_a_row = redis.call('HINCRBY', E, 'failures', 1)
      local failed_attempts = redis.call('HINCRBY', E, 'attempts_failed', 1)
      if redis.call('HSETNX', E, 'first_failure_at', now) == 1 then
        redis.call('HSET', E, 'first_failure_clock', clock())
      end
      if ARGV[8] == '410' and health ~= 'suspended' then
        become('suspended', 'it answered 410')
      elseif health == 'active' and in_a_row >= schedules.failing_after then
        become('failing', in_a_row .. ' attempts failed in a row')
        redis.call('HSET', E, 'probe_step', 1, 'probe_at', now + later(schedules.probe, 1))
      elseif health == 'failing' and probe then
        local step = redis.call('HINCRBY', E, 'probe_step', 1)
        redis.call('HSET', E, 'probe_at', now + later(schedules.probe, step))
        redis.call('HDEL', E, 'probe')
        if clock() - number('first_failure_clock') >= schedules.suspend_after and failed_attempts >= schedules.suspend_attempts then
          become('suspended', 'it failed for too long, ' .. failed_attempts .. ' attempts')
        end
      end
    end
  end
end
local function answer(outcome, in_ms)
  if #changed > 0 then redis.call('HSET', record(id), unpack(changed)) end
  return {outcome, in_ms, failures, entered, left, why}
end
local function ended(outcome, reason)
  if current then no_longer_owed(asset) end
  if exists then
    close(id, changed, outcome, nil, reason)
    changed = {}
  end
  return answer(outcome, -1)
end
if redeliver then
  if ok and (same_url or not current) then return ended('delivered') end
  if ok then return answer('delivered', -1) end
  local times = tonumber(r[5] or '0') + 1
  change('redeliver_failures', times)
  local answered = answer('retry', later(schedules.retry, times))
  -- What is owed again meanwhile keeps its record for as long as it is.
  if not current then redis.call('EXPIRE', record(id), KEEP_SECONDS) end
  return answered
end
if not current then
  -- A newer notification took its place while it was under way. If that one waited for this lease, it is due;
  -- if the lease had ended, it may have been attempted since and keeps its own time.
  local newer = redis.call('HGET', base .. 'owed', asset)
  if newer and counted then
    redis.call('ZADD', base .. lane_of(asset), tonumber(redis.call('ZSCORE', base .. 'owed-since', asset) or now), asset)
  end
  return answer('gone', -1)
end
if ok and same_url then return ended('delivered') end
if lease_end(asset) then return answer('retry', lease_end(asset) - now) end
if not same_url then
  redis.call('ZADD', base .. lane_of(asset), now, asset)
  return answer('retry', 0)
end
if not counted then
  -- A late failure: its lease had ended, and the entry is due by itself.
  return answer('retry', 0)
end
failures = failures + 1
change('failures', failures)
if not r[3] then change('clock_since', clock()) end
local delay = later(schedules.retry, failures)
local since = tonumber(r[3] or clock())
local took_others = last_success > tonumber(r[4] or now)
if clock() + delay - since > schedules.window and state() == 'active' and took_others then
  return ended('failed', 'window')
end
redis.call('ZADD', base .. lane_of(asset), now + delay, asset)
return answer('retry', delay)
`,
  endpointLua,
  notificationLua,
);

export async function settleAttempt(db: Db, verdict: Verdict, schedule: DeliverySchedule): Promise<Settled> {
  const answer = (await runScript(db, settle, verdict.clientToken, [
    verdict.platformId,
    verdict.notificationId,
    verdict.taken.token,
    verdict.taken.generation,
    verdict.taken.epoch,
    verdict.ok ? 1 : 0,
    verdict.attempt.status ?? '',
    verdict.attempt.error ?? '',
    verdict.retryAfterMs ?? 0,
    JSON.stringify(verdict.attempt),
    verdict.ok
      ? ''
      : JSON.stringify({
          retry: schedule.retryScheduleMs,
          probe: schedule.probeScheduleMs,
          window: schedule.retryWindowMs,
          failing_after: schedule.failingAfter,
          suspend_after: schedule.suspendAfterMs,
          suspend_attempts: suspendMinimumAttempts,
        }),
    Math.random(),
    verdict.redeliver ? 1 : 0,
  ])) as [Buffer, number, number, Buffer, Buffer, Buffer];
  const [to, from] = [answer[3], answer[4]].map(text) as [EndpointHealth | '', EndpointHealth];
  return {
    outcome: text(answer[0]) as Settled['outcome'],
    inMs: answer[1],
    failures: answer[2],
    ...(to === '' ? {} : { change: { from, to, why: text(answer[5]) } }),
  };
}
