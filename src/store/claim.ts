import { assetSlot, idToBytes, segmentFingerprints } from '../ids.js';
import type { Db } from './db.js';
import { endpointLua } from './endpointLua.js';
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

export type Claim =
  /** The asset is owed now, by this notification; `claim` is its number. */
  | { kind: 'claimed'; claim: number }
  /** Claimed last by this notification already: nothing was changed. */
  | { kind: 'mine'; claim: number }
  | { kind: 'not_needed'; by?: string }
  /** It was claimed and has ended since, or a newer one took its place. */
  | { kind: 'ended'; state: string };

/**
 * Decides, once, whether an event makes a notification (DESIGN rule 2). Safe to repeat.
 *
 * ARGV: 2 bucket, 3 field, 4 fingerprints, 5 id's bytes, 6 id, 7 asset, 8 event id, 9 looked-up claim number,
 * 10 priority, 11 accepted at
 */
const claim = clientScript(
  `
local id, asset = ARGV[6], ARGV[7]
local number_now, last, segments = read_known(ARGV[2], ARGV[3])
if last == ARGV[5] then return {'mine', number_now} end
local state = redis.call('HGET', record(id), 'state')
if state and state ~= 'waiting' then return {'ended', state} end
local new = missing(segments, ARGV[4])
if new == '' and number_now > tonumber(ARGV[9]) then
  redis.call('HSET', record(id), 'asset', asset, 'event', ARGV[8], 'accepted_at', ARGV[11], 'priority', ARGV[10], 'state', 'waiting')
  finish(id, 'not_needed', id_text(last))
  list(id, ARGV[11])
  decide(asset, ARGV[8], 'not_needed')
  return {'not_needed', last}
end
number_now = number_now + 1
write_known(ARGV[2], ARGV[3], number_now, ARGV[5], segments .. new)
local priority = owe(asset, id, ARGV[10])
redis.call('HSET', record(id), 'asset', asset, 'event', ARGV[8], 'accepted_at', ARGV[11], 'state', 'waiting',
  'priority', priority, 'claim', number_now, 'clock_since', clock(), 'failures', 0)
redis.call('PERSIST', record(id))
list(id, ARGV[11])
return {'claimed', number_now}
`,
  endpointLua,
  notificationLua,
  knownLua,
);

export async function claimEvent(db: Db, event: Claimable): Promise<Claim> {
  const slot = assetSlot(event.platformId);
  const answer = (await runScript(db, claim, event.clientToken, [
    slot.bucket,
    slot.field,
    segmentFingerprints(event.segments),
    idToBytes(event.notificationId),
    event.notificationId,
    event.platformId,
    event.eventId,
    event.lookedUpClaim,
    event.priority,
    event.acceptedAt,
  ])) as [Buffer, unknown];
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
