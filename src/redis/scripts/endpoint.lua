-- Reads and changes an endpoint's hash, whose fields src/redis/connection/keys.ts lists.
-- The endpoint's clock runs while there is a URL that is neither paused, held nor suspended.

local function field(name) return redis.call('HGET', E, name) or nil end
local function number(name) return tonumber(redis.call('HGET', E, name) or '0') end

local given_bound
-- 1 if the caller must wake catch-up, else 0.
local needs_wake
at_begin(function() given_bound, needs_wake = nil, 0 end)
local NUMBERS = {'not_before', 'probe_at', 'epoch', 'url_epoch', 'rate_at', 'drain_at', 'recovered_at', 'catch_up_until',
  'planned_at', 'woken_at', 'failures', 'last_success_at', 'places', 'picks', 'leases_end', 'clock_seen', 'turned',
  'pull_below', 'updates_awaited_until', 'feed_end', 'replay_end'}
-- One table for all calls: a new one would grow with each field. Whoever holds it sees what is read again.
local kept_health = {}
local function health()
  if facts.health then return facts.health end
  local h = kept_health
  local e = redis.call('HMGET', E, 'state', 'paused', 'held', 'secrets_at', unpack(NUMBERS))
  h.state, h.is_paused, h.secrets_at = e[1] or 'active', e[2] == '1' or e[3] and true, e[4] or ''
  for i = 1, #NUMBERS do h[NUMBERS[i]] = e[i + 4] and tonumber(e[i + 4]) or 0 end
  -- Redis' clock has stepped back since this client was last set right (`set_right`).
  h.is_turned = h.clock_seen > now + CLOCK_SEEN_MS or turned > h.turned
  h.recovered_at = noted(h.recovered_at, 1)
  -- A plan of another clock is unknown.
  if h.planned_at > now then h.planned_at, h.catch_up_until = 0, 0 end
  facts.health = h
  return h
end
local function limits()
  if facts.limits then return facts.limits end
  local c = redis.call('HMGET', base .. 'client', 'account_id', 'deleted', 'max_in_flight', 'max_per_second',
    'quiet_seconds')
  -- After a recovery an endpoint has fewer places, until it has shown that it bears more.
  local bound, places = tonumber(c[3] or given_bound or ''), health().places
  facts.limits = {
    is_known = c[1] and not c[2], is_deleted = c[2], all_places = bound,
    bound = bound and places > 0 and math.min(places, bound) or bound, rate = tonumber(c[4] or '0'),
    quiet_ms = 1000 * tonumber(c[5] or '0'),
    url = redis.call('HGET', base .. 'registration', 'url'),
  }
  return facts.limits
end
-- While the clocks of Redis and the caller disagree, the lesser counts.
local function clock()
  local at = number('clock_at')
  return number('clock_ms') + (at > 0 and math.max(math.min(now, callers_now) - at, 0) or 0)
end
-- When, by this clock, an outage began: nil if there is none, or nobody knows.
local function outage_began() return health().state ~= 'active' and tonumber(field('fails_since') or field('first_failure_clock')) or nil end
-- The same clock without the outages: what one refuses is given up only while it accepts others.
local function accepting_clock() return (outage_began() or clock()) - number('outages_ms') end
local function sync_clock()
  local h = health()
  local runs = limits().url and not h.is_paused and h.state ~= 'suspended'
  local at = number('clock_at')
  if runs and at == 0 then change('HSET', E, 'clock_at', now)
  elseif not runs and at > 0 then change('HSET', E, 'clock_ms', clock(), 'clock_at', 0) end
end
local function enter(name)
  local accepting = accepting_clock()
  change('HSET', E, 'state', name, 'places', 0)
  change('HINCRBY', E, 'epoch', 1)
  if name == 'active' then
    change('HSET', E, 'failures', 0, 'recovered_at', now, 'outages_ms', clock() - accepting)
    change('HDEL', E, 'first_failure_at', 'first_failure_clock', 'fails_since', 'probe_step', 'probe_at')
  end
  sync_clock()
end
-- Sends what has become owed until now at the drain rate.
local function drain()
  change('HSET', E, 'recovered_at', now + 1)
end
-- Returns the state that people see.
local function seen()
  local h = health()
  if not limits().url then return 'not_registered' end
  return h.is_paused and 'paused' or h.state
end
-- Records a change of the state that people see, or of the URL (`is_url`), the newest first.
local function note_change(from, why, by, is_url)
  local to = seen()
  if from == to and not is_url then return end
  local changes = base .. 'state-changes'
  redis.call('LPUSH', changes, cjson.encode({at = now, from = from, to = to, why = why, by = by}))
  redis.call('LTRIM', changes, 0, 19)
  change('HSET', E, 'changed_at', now)
end
-- Catch-up plans again after this time (ms), which bounds the cost of a lost wake-up.
local LONGEST_SLEEP = 3600000
-- A drain takes up to 7.5 s; after this time without a plan, catch-up counts as stopped.
local AWAKE_MS = 8000
-- The one way to wake catch-up: asks for it by this time (-1: no time is known), unless it wakes before that anyway. `woken_at`: since
-- when it was asked for in vain.
local function alarm(at)
  at = math.min(at < 0 and FAR or at, now + LONGEST_SLEEP)
  local h = health()
  if h.catch_up_until > now - AWAKE_MS and h.catch_up_until <= at then return end
  if h.woken_at <= h.planned_at or h.woken_at > now then h.woken_at = now end
  note('catch_up_until', at, 'woken_at', h.woken_at, 'planned_at', h.planned_at)
  needs_wake = 1
end
-- Makes due whatever waits for a later time, but for quiet periods, and for what failed before this time (by `accepting_clock`) already:
-- each call of `pull_forward` goes on, the latest first, down to `pull_below`.
local function due_all(failed_before)
  if waiting_count() == 0 then return end
  note('pull_below', FAR)
  change('HSET', E, 'pull_failed_before', failed_before or 0)
end
-- How many assets of a lane one call makes due.
local PULLED_AT_ONCE = 200
local function pull_forward()
  local below = health().pull_below
  if below == 0 then return end
  local reached, has_moved, failed_before = 0, false, number('pull_failed_before')
  local function keeps_retry(asset)
    local id = failed_before > 0 and redis.call('HGET', base .. 'owed', asset)
    return id and tonumber(redis.call('HGET', record(id), 'clock_since') or FAR) < failed_before
  end
  for _, lane in pairs(LANES) do
    local later = redis.call('ZREVRANGEBYSCORE', base .. lane, below, now + 1, 'WITHSCORES', 'LIMIT', 0, PULLED_AT_ONCE)
    for i = 1, #later, 2 do
      local due, before = tonumber(later[i + 1]), since_of(later[i])
      local since = since_set_right(before)
      if since ~= before then redis.call('ZADD', base .. 'owed-since', since, later[i]) end
      -- A quiet period began when the asset became owed, and keeps its length.
      local moved = is_quiet(due) and due - (before - since) or keeps_retry(later[i]) and due or since
      if moved ~= due then
        redis.call('ZADD', base .. lane, moved, later[i])
        has_moved = true
      end
    end
    if #later == 2 * PULLED_AT_ONCE then reached = math.max(reached, tonumber(later[#later])) end
  end
  -- Only those stay that keep their time: what is due before them comes next.
  if reached == below and not has_moved then reached = below - 0.5 end
  if reached == 0 then
    -- What was put before the others, by a redelivery, is due since before it was owed.
    local ahead = redis.call('ZREVRANGEBYSCORE', base .. 'owed-since', '+inf', '(' .. now, 'WITHSCORES', 'LIMIT', 0, PULLED_AT_ONCE)
    for i = 1, #ahead, 2 do redis.call('ZADD', base .. 'owed-since', since_set_right(tonumber(ahead[i + 1])), ahead[i]) end
    if #ahead == 2 * PULLED_AT_ONCE then reached = now + 1 end
  end
  if reached > 0 then return note('pull_below', reached) end
  change('HDEL', E, 'pull_below', 'pull_failed_before')
  -- Nothing is noted ahead of the present any more.
  if number('ahead_until') > now then change('HSET', E, 'ahead_until', now) end
end
-- Starts again with another URL, or with none: verdicts of an older URL no longer count, and what waits is due.
local function new_url(from, why, by)
  change('HDEL', E, 'not_before', 'last_error', 'last_detail', 'last_status', 'last_failure_at', 'last_failed_id', 'last_success_at')
  enter('active')
  change('HSET', E, 'url_epoch', health().epoch)
  due_all()
  pull_forward()
  note_change(from, why, by, true)
end
-- Returns the time of the endpoint's first failure since its last success (`otherwise` if there is none), and the number of
-- failed attempts since. Call it before `enter`.
local function failed_so_far(otherwise)
  return tonumber(field('first_failure_at') or otherwise), number('failures')
end
-- Ends a replay. The same one may be asked for again at once if it was stopped, else after a day.
local function end_replay(is_stopped)
  local same = field('replay_same')
  if same and is_stopped then redis.call('DEL', same) elseif same then redis.call('EXPIRE', same, 86400) end
  change('HSET', E, 'replay_end', 0, 'replay_ended_at', now)
end
-- Writes a notice to this field, where src/redis/records/notices.ts reads it. It replaces an older one: only the newest counts. Its
-- number is Redis' time, and rises even while the clock was set back.
local function owe_notice(name, kind, reason, since, attempts_failed)
  local last = math.max(number('notice_number') + 1, now)
  change('HSET', E, 'notice_number', last, name, cjson.encode({
    kind = kind, number = last, at = now, reason = reason, since = since, attempts_failed = attempts_failed,
  }))
end
-- Removes a notice that was claimed, unless a newer one has replaced it meanwhile.
-- Arguments: name (of the field), notice (JSON)
-- Answer: 1 if it was removed, else 0
entry('dropNotice', function(_, ARGV)
  if redis.call('HGET', E, ARGV[2]) ~= ARGV[3] then return 0 end
  return change('HDEL', E, ARGV[2])
end)
