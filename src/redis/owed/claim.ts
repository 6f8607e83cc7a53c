/** Claims events: decides once for each whether it makes a notification, and makes its asset owed. */

import type { DeliverySettings } from '../../config.js';
import { assetSlot, idToBytes, segmentFingerprints } from '../../ids.js';
import type { Db } from '../connection/db.js';
import { askScript, type ScriptArgument } from '../connection/library.js';
import { announceClaims } from './owedClients.js';
import { boundsArguments, type Takes, type TakesAnswer, takenOf } from './turn.js';

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
  /** The name of the group's workflow; absent if the event has its own workflow. */
  group?: string;
  /** The traceparent of its span, if tracing is on. */
  trace?: string;
  /** The body of a notice, sent instead of an asset-update's. */
  body?: string;
}

/** The group of an event that has no workflow. */
export const withoutWorkflow = '-';

/** An event whose asset is owed, as its workflow carries it. */
export interface ClaimedEvent extends Omit<ArrivedEvent, 'notify' | 'group'> {
  /** The asset's claim number for this event. */
  claim: number;
}

export type Held = 'paused' | 'suspended';

export type Claim =
  | { kind: 'unknown_client' }
  | { kind: 'none'; reason: 'no_new_segments' | 'not_registered' | 'silent' }
  /** The asset is owed by this notification; `again`: it already was. `supersedes`: an older one of its asset was owed, and has ended. */
  | { kind: 'claimed'; claim: number; again: boolean; supersedes: boolean; held?: Held }
  /** The event was claimed before, and its notification has ended or was superseded. */
  | { kind: 'ended'; state?: string; held?: Held }
  /** Claimed again: another event brought the same segments meanwhile. */
  | { kind: 'not_needed' };

export interface Claims extends Takes {
  /** One for each event, in order. */
  claims: Claim[];
}

/**
 * Claims events of one client in one script, and takes the oldest due.
 * @param nonce new for each call; `runTurn` with the same nonce finds what a call has taken whose answer was lost
 * @param most how many assets to take at most
 */
export async function claimEvents(
  db: Db,
  clientToken: string,
  events: readonly ArrivedEvent[],
  settings: DeliverySettings,
  { nonce, most }: { nonce: string; most: number },
): Promise<Claims> {
  return await claim(db, clientToken, boundsArguments(settings, nonce, most), events, nonce);
}

/** Claims events of one client durably and takes nothing: the caller wakes catch-up. */
export async function claimOnly(
  db: Db,
  clientToken: string,
  events: readonly ArrivedEvent[],
): Promise<Claim[]> {
  return (await db.durably((own) => claim(own, clientToken, takesNothing, events, '')).safe).claims;
}

const takesNothing: ScriptArgument[] = [0, '', '', '', 0];

/** Claims an event again, durably, because Redis may have lost its claim. */
export async function claimAgain(
  db: Db,
  { claim: lost, ...event }: ClaimedEvent,
): Promise<{ claim: Claim; wakeCatchUp: boolean }> {
  // Redis may have lost the announcement, too.
  await announceClaims(db, event.clientToken);
  const again = { ...event, notify: true, group: withoutWorkflow, lookedUp: lost - 1 };
  const claimed = db.durably((own) => claim(own, event.clientToken, takesNothing, [again], ''));
  const { claims, wakeCatchUp } = await claimed.safe;
  return { claim: claims[0] as Claim, wakeCatchUp };
}

async function claim(
  db: Db,
  clientToken: string,
  bounds: ScriptArgument[],
  events: readonly (ArrivedEvent & { lookedUp?: number })[],
  nonce: string,
): Promise<Claims> {
  const args = [...bounds, db.keepSegmentsSeconds, ...events.flatMap(claimArguments)];
  const answer = await askScript<TakesAnswer & { claims: Claim[] }>(db, 'claim', clientToken, args);
  const taken = takenOf(answer, nonce);
  // The script does not answer what it was given with the same call.
  for (const one of taken) {
    const own = events.find(({ notificationId }) => notificationId === one.notificationId);
    one.trace ??= own?.trace;
    one.body ??= own?.body;
  }
  return { ...answer, taken };
}

function claimArguments(event: ArrivedEvent & { lookedUp?: number }): ScriptArgument[] {
  const { bucket, field } = assetSlot(event.platformId);
  const { notificationId, platformId, eventId, acceptedAt, group = '', trace = '', body = '' } = event;
  const lane = event.priority === 'live' ? 'L' : 'B';
  return [
    ...[bucket, field, notificationId, idToBytes(notificationId), platformId, eventId, lane, acceptedAt],
    ...[event.notify ? 0 : 1, group, event.lookedUp ?? -1, segmentFingerprints(event.segments), trace, body],
  ];
}
