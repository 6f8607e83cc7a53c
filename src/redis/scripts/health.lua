-- What a verdict changes of its endpoint: its state, its places, its next probe, and the notice of that.

-- `DeliverySettings` of src/config.ts, if a verdict of this call is a failure.
local schedule
-- Returns a step of a schedule, ms, with jitter: lengthened by up to a tenth at random.
local function delay_of(list, step, random)
  return math.ceil(list[math.min(step, #list)] * (1 + 0.1 * random))
end
local notice_of = {failing = 'endpoint.failing', suspended = 'endpoint.suspended', active = 'endpoint.recovered'}
-- Changes the endpoint's state, and owes the notice of that; says: the verdict's answer about the change.
local function become(says, name, reason)
  local from, since, attempts_failed = seen(), failed_so_far(field('last_failure_at') or now)
  says.change = {to = name, from = health().state, why = reason}
  owe_notice('state_notice', notice_of[name], reason, since, attempts_failed)
  enter(name)
  note_change(from, reason, 'service')
end
-- Bounds the places of an endpoint that has recovered; 0: it has all of its places again.
local function set_places(places)
  change('HSET', E, 'places', places)
end
local function settle_success(says, same_epoch)
  local h = health()
  -- Readers need it only to the second, so a busy endpoint saves most of these writes.
  if math.abs(now - h.last_success_at) >= 1000 then note('last_success_at', now) end
  if not same_epoch then return end
  if h.state == 'failing' then
    -- What this endpoint refused while it accepted others would be the oldest of all now, and soon have it fail again.
    local began = outage_began() and accepting_clock()
    become(says, 'active', 'a probe succeeded')
    set_places(1)
    due_all(began)
    -- Catch-up, which sleeps until the next probe, shows that the endpoint has recovered.
    if waiting_count() > 0 then alarm(now) end
    return
  end
  -- One more with each success: 1, 2, 4, ... in the time of one answer each.
  if h.places > 0 then set_places(h.places + 1 < limits().all_places and h.places + 1 or 0) end
  if h.state == 'active' and h.failures > 0 then
    change('HSET', E, 'failures', 0)
    change('HDEL', E, 'first_failure_at', 'first_failure_clock')
  end
end
local function settle_failure(says, same_epoch, v)
  local state = health().state
  change('HSET', E, 'last_failure_at', now, 'last_failed_id', v.id)
  -- An attempt that was under way when another one suspended the endpoint does not change what people are told of that.
  if state ~= 'suspended' then
    change('HSET', E, 'last_error', v.error, 'last_status', v.status, 'last_detail', cjson.decode(v.line).detail or '')
  end
  if now + v.retry_after_ms > math.max(number('not_before'), now) then
    change('HSET', E, 'not_before', now + v.retry_after_ms, 'retry_after', v.retry_after_ms)
  end
  -- A failure from before a recovery must not count towards the next suspension.
  if not same_epoch then return end
  if number('places') > 1 then set_places(1) end
  local in_a_row = change('HINCRBY', E, 'failures', 1)
  change('HSETNX', E, 'first_failure_at', now)
  if is_sure() then change('HSETNX', E, 'first_failure_clock', clock()) end
  if v.status == '410' and state ~= 'suspended' then
    become(says, 'suspended', 'it answered 410')
  elseif state == 'active' and in_a_row >= schedule.failingAfter then
    become(says, 'failing', in_a_row .. ' attempts failed in a row')
    change('HSET', E, 'probe_step', 1, 'probe_at', now + delay_of(schedule.probeScheduleMs, 1, v.random))
  elseif state == 'failing' then
    local step = change('HINCRBY', E, 'probe_step', 1)
    change('HSET', E, 'probe_at', now + delay_of(schedule.probeScheduleMs, step, v.random))
    local since = is_sure() and field('first_failure_clock')
    local fails_long = since and clock() - tonumber(since) >= schedule.suspendAfterMs
    if fails_long and in_a_row >= schedule.suspendMinimumAttempts then
      become(says, 'suspended', 'it failed for too long, ' .. in_a_row .. ' attempts')
    end
  end
end
