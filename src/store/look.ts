import { assetSlot, idFromBytes, idToBytes, segmentFingerprints } from '../ids.js';
import type { Db } from './db.js';
import { knownLua } from './notificationLua.js';
import { clientScript, runScript, text } from './script.js';

export interface EnrichmentEvent {
  clientToken: string;
  platformId: string;
  eventId: string;
  segments: readonly string[];
  notificationId: string;
  priority: 'live' | 'backfill';
  notify: boolean;
}

export type Look =
  | { kind: 'unknown_client' }
  | { kind: 'none'; reason: 'no_new_segments' | 'not_registered' | 'silent' }
  /** `claim`: the asset's claim number; it travels with the event. */
  | { kind: 'new'; claim: number; held?: 'paused' | 'suspended' }
  /** This very event was claimed before and no other since: a repeat. */
  | { kind: 'claimed'; held?: 'paused' | 'suspended' };

/**
 * What an accepted event would bring: read only, except for silent events and clients without a URL, whose
 * segments are marked as had in the same moment (there is no notification to lose).
 *
 * ARGV: 2 bucket, 3 field, 4 fingerprints, 5 silent, 6 notification id's bytes, 7 asset, 8 event id
 */
const look = clientScript(
  `
local client = redis.call('HMGET', base .. 'client', 'account_id', 'deleted')
if not client[1] or client[2] then return {'unknown_client'} end
local claim, last, segments = read_known(ARGV[2], ARGV[3])
local new = missing(segments, ARGV[4])
local function none(reason)
  decide(ARGV[7], ARGV[8], reason)
  return {'none', reason}
end
local function mark(reason)
  if new ~= '' then write_known(ARGV[2], ARGV[3], claim, last, segments .. new) end
  return none(reason)
end
local endpoint = redis.call('HMGET', base .. 'endpoint', 'paused', 'held', 'state')
local held = ''
if endpoint[1] == '1' or endpoint[2] == '1' then held = 'paused' elseif endpoint[3] == 'suspended' then held = 'suspended' end
if last == ARGV[6] and ARGV[5] == '0' then return {'claimed', held} end
if ARGV[5] == '1' then return mark('silent') end
if redis.call('HEXISTS', base .. 'registration', 'url') == 0 then return mark('not_registered') end
if new == '' then return none('no_new_segments') end
return {'new', held, claim}
`,
  knownLua,
);

export async function lookAtEvent(db: Db, event: EnrichmentEvent): Promise<Look> {
  const slot = assetSlot(event.platformId);
  const answer = (await runScript(db, look, event.clientToken, [
    slot.bucket,
    slot.field,
    segmentFingerprints(event.segments),
    event.notify ? 0 : 1,
    idToBytes(event.notificationId),
    event.platformId,
    event.eventId,
  ])) as [Buffer, Buffer?, number?];
  const kind = text(answer[0]);
  const second = answer[1] === undefined ? '' : text(answer[1]);
  const held =
    second === 'paused' || second === 'suspended' ? { held: second as 'paused' | 'suspended' } : {};
  switch (kind) {
    case 'unknown_client':
      return { kind };
    case 'none':
      return { kind, reason: second as 'no_new_segments' | 'not_registered' | 'silent' };
    case 'claimed':
      return { kind, ...held };
    case 'new':
      return { kind, claim: answer[2] ?? 0, ...held };
    default:
      throw new Error(`look answered ${kind}`);
  }
}

/** The id behind the 16 bytes that a script answered; undefined where they are all zero. */
export function idOfAnswer(bytes: unknown): string | undefined {
  return Buffer.isBuffer(bytes) && bytes.length === 16 && bytes.some((b) => b !== 0)
    ? idFromBytes(bytes)
    : undefined;
}
