import { assetSlot, idToBytes, segmentFingerprints } from '../ids.js';
import type { Db } from './db.js';
import type { ScriptArgument } from './evalsha.js';
import { idOfAnswer } from './look.js';
import { knownLua, notificationLua } from './notificationLua.js';
import { clientScript, runScript, text } from './script.js';

export interface Claimable {
  clientToken: string;
  platformId: string;
  eventId: string;
  segments: readonly string[];
  notificationId: string;
  priority: 'live' | 'backfill';
  /** The asset's claim number when the event was accepted. */
  lookedUpClaim: number;
  /** ms */
  acceptedAt: number;
}

/** An event that may not have been looked at yet. */
export type Arrived = Omit<Claimable, 'lookedUpClaim'> & { lookedUpClaim?: number };

export type Claim =
  /** The asset is owed now, by this notification; `claim` is its number. */
  | { kind: 'claimed'; claim: number }
  /** Claimed last by this notification already, and not ended: nothing was changed. */
  | { kind: 'mine'; claim: number }
  | { kind: 'not_needed'; by?: string }
  /** It was claimed and has ended since, or a newer one took its place. */
  | { kind: 'ended'; state: string };

/**
 * Lua of a claim (DESIGN rule 2): decides, once, whether an event makes a notification. Safe to repeat.
 * Needs `notificationLua` and `knownLua`. `at`: where the event begins in ARGV (see `claimArguments`); `looked_up`: the
 * asset's claim number when it was looked at. `write_due` must follow in the same script.
 */
export const claimLua = `
local function claim_event(at, looked_up)
  local bucket, slot, wanted, id_bytes, id = ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3], ARGV[at + 4]
  local asset, event, priority, accepted_at = ARGV[at + 5], ARGV[at + 6], ARGV[at + 8], ARGV[at + 9]
  local claimed, last, segments = read_known(bucket, slot)
  local state = redis.call('HGET', record(id), 'state')
  if state and state ~= 'waiting' then return {'ended', state} end
  if last == id_bytes then return {'mine', claimed} end
  local new = missing(segments, wanted)
  local function described()
    local fields = {'asset', asset, 'event', event, 'accepted_at', accepted_at}
    if state or priority ~= 'live' then fields[7], fields[8] = 'priority', priority end
    return fields
  end
  if new == '' and claimed > looked_up then
    close(id, described(), 'not_needed', id_text(last))
    list(id, accepted_at)
    decide(asset, event, 'not_needed')
    return {'not_needed', last}
  end
  claimed = claimed + 1
  -- Owed before known: what breaks off between them is claimed again, not taken for claimed.
  priority = owe(asset, id, priority)
  write_known(bucket, slot, claimed, id_bytes, segments .. new)
  redis.call('HSET', record(id), 'state', 'waiting', unpack(described()))
  if state then
    redis.call('HDEL', record(id), 'failures', 'clock_since')
    redis.call('PERSIST', record(id))
  end
  list(id, accepted_at)
  return {'claimed', claimed}
end
`;

/** How many arguments an event is for `claim_event`. */
export const claimArgumentCount = 10;

export function claimArguments(event: Arrived): ScriptArgument[] {
  const slot = assetSlot(event.platformId);
  return [
    slot.bucket,
    slot.field,
    segmentFingerprints(event.segments),
    idToBytes(event.notificationId),
    event.notificationId,
    event.platformId,
    event.eventId,
    event.lookedUpClaim ?? '',
    event.priority,
    event.acceptedAt,
  ];
}

const claim = clientScript(
  'local answer = claim_event(2, tonumber(ARGV[9])) write_due() return answer',
  notificationLua,
  knownLua,
  claimLua,
);

export async function claimEvent(db: Db, event: Claimable): Promise<Claim> {
  return claimOf((await runScript(db, claim, event.clientToken, claimArguments(event))) as unknown[]);
}

/** A claim from what `claim_event` answered. */
export function claimOf(answer: readonly unknown[]): Claim {
  const kind = text(answer[0]);
  switch (kind) {
    case 'claimed':
    case 'mine':
      return { kind, claim: Number(answer[1]) };
    case 'not_needed': {
      const by = idOfAnswer(answer[1]);
      return by === undefined ? { kind } : { kind, by };
    }
    case 'ended':
      return { kind, state: text(answer[1]) };
    default:
      throw new Error(`claim answered ${kind}`);
  }
}
