/** Claims events: decides once for each whether it makes a notification, and makes its asset owed. */
import { assetSlot, idToBytes, segmentFingerprints } from '../../ids.js';
import type { Db } from '../connection/db.js';
import { runTable } from '../connection/runScript.js';
import { script } from '../connection/script.js';
import { announceClaims } from './owedClients.js';
import { type Bounds, fieldsOf, type Take, takeOf } from './take.js';

/** An event as it arrives. */
export interface ArrivedEvent {
  clientToken: string;
  platformId: string;
  eventId: string;
  segments: readonly string[];
  notificationId: string;
  priority: 'live' | 'backfill';
  /** False: its segments are recorded as known, and nothing is sent. */
  notify: boolean;
  /** ms */
  acceptedAt: number;
  /** The name of the workflow that it will share with others; absent: it has its own. */
  group?: string;
  /** The traceparent of its span, if tracing is on. */
  trace?: string;
  /** Sent in place of the body of an asset update. */
  body?: string;
}

/** The group of an event that has no workflow. */
export const withoutWorkflow = '-';

/** An event whose asset is owed, as its workflow carries it. */
export interface ClaimedEvent extends Omit<ArrivedEvent, 'notify' | 'group' | 'body'> {
  /** The asset's claim number for this event. */
  claim: number;
}

export type Held = 'paused' | 'suspended';

export type Claim =
  | { kind: 'unknown_client' }
  | { kind: 'none'; reason: 'no_new_segments' | 'not_registered' | 'silent' }
  /**
   * The asset is owed by this notification; `again`: it already was. `supersedes`: an older one of its asset was owed, and
   * has ended. `take`: whether it may be sent now, if that was asked.
   */
  | { kind: 'claimed'; claim: number; again: boolean; supersedes?: true; held?: Held; take?: Take }
  /** It was claimed, and has ended since, or a newer one took its place. */
  | { kind: 'ended'; state: string; held?: Held }
  /** Claimed again: another event brought the same segments meanwhile. */
  | { kind: 'not_needed'; by?: string };

const claim = script('claim');

export interface Claims {
  /** One for each event, in order. */
  claims: Claim[];
  /** True if something is owed that only catch-up will send: the caller wakes it. */
  wakeCatchUp: boolean;
}

/**
 * Claims events of one client in one script. With `take` it also takes the assets that may be sent now.
 * @param take.nonce new for each call; a call whose answer was lost is repeated with the same nonce
 */
export async function claimEvents(
  db: Db,
  clientToken: string,
  events: readonly (ArrivedEvent | ClaimedEvent)[],
  take?: Bounds & { nonce: string },
): Promise<Claims> {
  const bytes: Buffer[] = [];
  const q = {
    lease: take?.leaseMs ?? 0,
    bound: take?.maxInFlight ?? 0,
    drain: take?.drainPerSecond ?? 0,
    nonce: take?.nonce ?? '',
    take: take !== undefined,
    keep: db.keepSegmentsSeconds,
    events: events.map((event) => claimArguments(event, bytes)),
  };
  const answer = await runTable(db, claim, clientToken, q, bytes);
  const [url, flat, wake, answers] = answer as [string, string[], number, Answer[]];
  const secrets = fieldsOf(flat);
  return { claims: answers.map((one) => claimOf(one, url, secrets)), wakeCatchUp: wake === 1 };
}

/**
 * Claims again an event whose claim Redis may have lost; announces it first, because Redis may have lost that too. Resolves once
 * the claim is on Redis' disk.
 */
export async function claimAgain(db: Db, event: ClaimedEvent): Promise<Claim> {
  await announceClaims(db, [event.clientToken]);
  const { claims } = await db.durably((own) => claimEvents(own, event.clientToken, [event])).safe;
  return claims[0] as Claim;
}

function claimArguments(event: ArrivedEvent | ClaimedEvent, bytes: Buffer[]): unknown[] {
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
    // As text, because Redis stores text.
    String(event.acceptedAt),
    'notify' in event && !event.notify,
    ('group' in event && event.group) || '',
    'claim' in event ? event.claim : 0,
    ...('body' in event && event.body !== undefined ? [event.body] : []),
  ];
}

/** Kind, its value, hold, take, whether it supersedes another. */
type Answer = [string, unknown, string?, (readonly unknown[] | null)?, (1 | null)?];

function claimOf(
  [kind, second, held, take, supersedes]: Answer,
  url: string,
  secrets: Record<string, string>,
): Claim {
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
        ...(supersedes === 1 && { supersedes: true }),
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
