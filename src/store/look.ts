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
 * Lua of what an event would bring: read only, except for silent events and clients without a URL, whose
 * segments are marked as had in the same moment (there is no notification to lose). Needs `knownLua`.
 */
export const lookLua = `
local asked
-- What the events of a client have in common is read once, however many one script looks at.
local function client_asked()
  if asked then return asked end
  local client = redis.call('HMGET', base .. 'client', 'account_id', 'deleted')
  local endpoint = redis.call('HMGET', base .. 'endpoint', 'paused', 'held', 'state')
  local held = ''
  if endpoint[1] == '1' or endpoint[2] == '1' then held = 'paused' elseif endpoint[3] == 'suspended' then held = 'suspended' end
  local has_url = redis.call('HEXISTS', base .. 'registration', 'url') == 1
  asked = {is_known = client[1] and not client[2], has_url = has_url, held = held}
  return asked
end
local function look_at_event(bucket, slot, wanted, silent, id_bytes, asset, event)
  local client = client_asked()
  if not client.is_known then return {'unknown_client'} end
  local claim, last, segments = read_known(bucket, slot)
  local new = missing(segments, wanted)
  local function none(reason)
    decide(asset, event, reason)
    return {'none', reason}
  end
  local function mark(reason)
    if new ~= '' then write_known(bucket, slot, claim, last, segments .. new) end
    return none(reason)
  end
  if last == id_bytes and not silent then return {'claimed', client.held, claim} end
  if silent then return mark('silent') end
  if not client.has_url then return mark('not_registered') end
  if new == '' then return none('no_new_segments') end
  return {'new', client.held, claim}
end
`;

/** ARGV: 2 bucket, 3 field, 4 fingerprints, 5 silent, 6 notification id's bytes, 7 asset, 8 event id */
const look = clientScript(
  "return look_at_event(ARGV[2], ARGV[3], ARGV[4], ARGV[5] == '1', ARGV[6], ARGV[7], ARGV[8])",
  knownLua,
  lookLua,
);

export async function lookAtEvent(db: Db, event: EnrichmentEvent): Promise<Look> {
  const slot = assetSlot(event.platformId);
  const answer = await runScript(db, look, event.clientToken, [
    slot.bucket,
    slot.field,
    segmentFingerprints(event.segments),
    event.notify ? 0 : 1,
    idToBytes(event.notificationId),
    event.platformId,
    event.eventId,
  ]);
  return lookOf(answer as unknown[]);
}

/** What `look_at_event` answered. */
export function lookOf(answer: readonly unknown[]): Look {
  const kind = text(answer[0]);
  const second = text(answer[1]);
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
      return { kind, claim: Number(answer[2]), ...held };
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
