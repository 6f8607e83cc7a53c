/** Claims: decides, once for each event, whether it makes a notification, and makes its asset owed. */
import { assetSlot, idToBytes, segmentFingerprints } from '../../ids.js';
import type { Db } from '../connection/db.js';
import { runTable, tableScript } from '../connection/script.js';
import { endpointLua } from '../records/endpointLua.js';
import { knownLua } from './knownLua.js';
import { notificationLua } from './notificationLua.js';
import { type Bounds, fieldsOf, type Take, takeLua, takeOf } from './take.js';

/** An event as it arrives. */
export interface ArrivedEvent {
  clientToken: string;
  platformId: string;
  eventId: string;
  segments: readonly string[];
  notificationId: string;
  priority: 'live' | 'backfill';
  /** False: its segments are recorded as had, and nothing is sent. */
  notify: boolean;
  /** ms */
  acceptedAt: number;
  /** Of the workflow that it will share with others; absent: it has one of its own. */
  group?: string;
}

/** Stands for the group of an event that has no workflow. */
export const withoutWorkflow = '-';

/** An event whose asset is owed: what its workflow carries. */
export interface ClaimedEvent extends Omit<ArrivedEvent, 'notify' | 'group'> {
  /** The asset's claim number that it was given. */
  claim: number;
}

/** An event that is claimed again: with the asset's claim number before the claim that may be lost. */
export interface ClaimableEvent extends Omit<ArrivedEvent, 'notify' | 'group'> {
  lookedUpClaim: number;
}

export type Held = 'paused' | 'suspended';

export type Claim =
  | { kind: 'unknown_client' }
  | { kind: 'none'; reason: 'no_new_segments' | 'not_registered' | 'silent' }
  /** The asset is owed by this notification; `again`: it was before. `take`: whether it may be sent now, where that was asked. */
  | { kind: 'claimed'; claim: number; again: boolean; held?: Held; take?: Take }
  /** It was claimed, and has ended since or a newer one took its place. */
  | { kind: 'ended'; state: string; held?: Held }
  /** Claimed again: another event brought the same segments meanwhile. */
  | { kind: 'not_needed'; by?: string };

/**
 * Lua of a claim (rule 1 of docs/architecture.md). Safe to repeat: an event that claimed its asset last finds it so.
 *
 * q: lease, bound, drain, nonce (see `takeLua`), take (whether to take what is claimed), events: lists of bucket, length
 * of the fingerprints, id, asset, event id, lane, accepted at, silent, group ('' for none), looked-up claim number (-1:
 * not claimed before). Bytes of each event: its field in the bucket (8), its id (16), its fingerprints.
 *
 * Answers {url, signing secrets, wake catch-up, answer of each event}.
 */
const claim = tableScript(
  `
local function held()
  local c = common()
  return c.is_paused and 'paused' or c.state == 'suspended' and 'suspended' or ''
end
local has_listed = false
-- last: who claimed the asset before, its id's bytes
local function write_claim(e, claimed, last, segments)
  local bucket, _, id, asset, event, lane, accepted_at, _, group = unpack(e)
  lane = owe(asset, id, lane)
  write_known(bucket, e.slot, claimed, e.id_bytes, segments)
  local fields = {'asset', asset, 'event', event, 'accepted_at', accepted_at}
  if lane == 'B' then fields[#fields + 1], fields[#fields + 2] = 'priority', 'backfill' end
  if group ~= '' then fields[#fields + 1], fields[#fields + 2] = 'group', group end
  if claimed > 1 then fields[#fields + 1], fields[#fields + 2] = 'before', last end
  redis.call('HSET', record(id), unpack(fields))
  list(id, accepted_at)
  has_listed = true
  return {'claimed', claimed, held()}
end
local function claim_again(e, claimed, last, segments, new)
  local _, _, id, asset, event, _, accepted_at, _, _, looked_up = unpack(e)
  local state = state_of(id)
  if state and state ~= 'waiting' then return {'ended', state, held()} end
  if common().is_deleted then
    -- What was owed its deletion cancels; what nothing had claimed ends here.
    if not state then
      close(id, {'asset', asset, 'event', event, 'accepted_at', accepted_at}, 'cancelled', nil, 'client_deleted')
    end
    return {'ended', 'cancelled', ''}
  end
  if last == e.id_bytes then return {'mine', claimed, held()} end
  if new ~= '' or claimed <= looked_up then return write_claim(e, claimed + 1, last, segments .. new) end
  close(id, {'asset', asset, 'event', event, 'accepted_at', accepted_at}, 'not_needed', id_text(last))
  keep_beside(asset, id)
  list(id, accepted_at)
  has_listed = true
  decide(asset, event, 'not_needed')
  return {'not_needed', id_text(last) or false}
end
local function claim_event(e)
  local bucket, length, id, asset, event, _, _, is_silent, _, looked_up = unpack(e)
  e.slot, e.id_bytes = bytes(8), bytes(16)
  local claimed, last, segments = read_known(bucket, e.slot)
  local new = missing(bucket, e.slot, segments, bytes(length))
  if looked_up >= 0 then return claim_again(e, claimed, last, segments, new) end
  local c = common()
  if not c.is_known then return {'unknown_client'} end
  if last == e.id_bytes and not is_silent then
    local state = state_of(id) or 'ended'
    if state == 'waiting' then return {'mine', claimed, held()} end
    return {'ended', state, held()}
  end
  if not is_silent and c.url and new ~= '' then
    -- It comes once more, after some of its segments were forgotten.
    local before = #segments >= PACKED_BYTES and state_of(id)
    if before then return {'ended', before, held()} end
    return write_claim(e, claimed + 1, last, segments .. new)
  end
  local reason = is_silent and 'silent' or not c.url and 'not_registered' or 'no_new_segments'
  if new ~= '' then write_known(bucket, e.slot, claimed, last, segments .. new) end
  decide(asset, event, reason)
  return {'none', reason}
end

-- All are claimed before one is taken: of two events of one asset only the newer is sent.
local answers, has_taken = {}, false
local done, failure = pcall(function()
  local flights = redis.call('HLEN', base .. 'flight')
  is_empty.flight, is_empty.waiting = flights == 0, redis.call('HLEN', base .. 'owed') == 0
  for i, e in ipairs(q.events) do answers[i] = claim_event(e) end
  if not q.take then return end
  common().in_flight = flights + redis.call('HLEN', base .. 'resends')
  for i, e in ipairs(q.events) do
    local answer = answers[i]
    if answer[1] == 'claimed' or answer[1] == 'mine' then
      answer[4] = take_attempt(e[4], e[3], 'first', answer[2], e[1], e.slot)
      has_taken = has_taken or answer[4][1] == 'taken'
    end
  end
end)
-- Whatever happens above: what is owed without a time at which it is due would wait for ever.
write_waiting()
if not done then error(failure) end
if has_listed then trim_list() end
return {common().url or '', has_taken and signing_secrets() or {}, needs_wake, answers}
`,
  endpointLua,
  notificationLua,
  knownLua,
  takeLua,
);

export interface Claims {
  /** One for each event, in order. */
  claims: Claim[];
  /** Something is owed that nobody will send before catch-up has been woken. */
  wakeCatchUp: boolean;
}

/**
 * Claims events of one client in one step; where `take` is given, takes at once what may be sent.
 * @param take.nonce new for each call; a call whose answer was lost is repeated with the same
 */
export async function claimEvents(
  db: Db,
  clientToken: string,
  events: readonly (ArrivedEvent | ClaimableEvent)[],
  take?: Bounds & { nonce: string },
): Promise<Claims> {
  const bytes: Buffer[] = [];
  const q = {
    lease: take?.leaseMs ?? 0,
    bound: take?.maxInFlight ?? 0,
    drain: take?.drainPerSecond ?? 0,
    nonce: take?.nonce ?? '',
    take: take !== undefined,
    events: events.map((event) => claimArguments(event, bytes)),
  };
  const answer = await runTable(db, claim, clientToken, q, bytes);
  const [url, flat, wake, answers] = answer as [string, string[], number, Answer[]];
  const secrets = fieldsOf(flat);
  return { claims: answers.map((one) => claimOf(one, url, secrets)), wakeCatchUp: wake === 1 };
}

/** Claims an event again that may have been claimed before. */
export async function claimAgain(db: Db, event: ClaimableEvent): Promise<Claim> {
  const { claims } = await claimEvents(db, event.clientToken, [event]);
  return claims[0] as Claim;
}

function claimArguments(event: ArrivedEvent | ClaimableEvent, bytes: Buffer[]): unknown[] {
  const { bucket, field } = assetSlot(event.platformId);
  const fingerprints = segmentFingerprints(event.segments);
  bytes.push(field, idToBytes(event.notificationId), fingerprints);
  return [
    bucket,
    fingerprints.length,
    event.notificationId,
    event.platformId,
    event.eventId,
    event.priority === 'live' ? 'L' : 'B',
    // As text, which is what Redis keeps of it.
    String(event.acceptedAt),
    'notify' in event && !event.notify,
    ('group' in event && event.group) || '',
    'lookedUpClaim' in event ? event.lookedUpClaim : -1,
  ];
}

type Answer = [kind: string, second: unknown, held?: string, take?: readonly unknown[]];

function claimOf([kind, second, held, take]: Answer, url: string, secrets: Record<string, string>): Claim {
  const holds = held === 'paused' || held === 'suspended' ? { held: held as Held } : {};
  switch (kind) {
    case 'unknown_client':
      return { kind };
    case 'none':
      return { kind, reason: second as 'no_new_segments' | 'not_registered' | 'silent' };
    case 'claimed':
    case 'mine':
      return {
        kind: 'claimed',
        claim: second as number,
        again: kind === 'mine',
        ...holds,
        ...(take && { take: takeOf(take, url, secrets) }),
      };
    case 'ended':
      return { kind, state: second as string, ...holds };
    case 'not_needed':
      return { kind, ...(typeof second === 'string' && { by: second }) };
    default:
      throw new Error(`claim answered ${kind}`);
  }
}
