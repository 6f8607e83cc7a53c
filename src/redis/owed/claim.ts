/** Claims events: decides once for each whether it makes a notification, and makes its asset owed. */
import { shared } from '../../constants.js';
import { assetSlot, idToBytes, type PublishedEvent, segmentFingerprints } from '../../ids.js';
import { inOrder } from '../connection/arguments.js';
import type { Db } from '../connection/db.js';
import { runScript } from '../connection/library.js';
import { checkMarks, requireData } from '../connection/mark.js';
import { announceClaims } from './owedClients.js';
import { askTaking, type Priority, type Takes, type Taking } from './turn.js';

export interface ArrivedEvent extends PublishedEvent {
  notificationId: string;
  priority: Priority;
  /** False: its segments are recorded as known, and nothing is sent. */
  notify: boolean;
  /** ms */
  acceptedAt: number;
  /** The name of the group's workflow; absent if the event has its own workflow. */
  group?: string;
  trace?: string;
  /** The body of a notice, sent instead of an asset-update's. */
  body?: string;
}

/** A script that claims more events would delay Redis for others. */
export const claimsPerScript = 100;

/** An event whose asset is owed, as its workflow carries it. */
export interface ClaimedEvent extends Omit<ArrivedEvent, 'notify' | 'group'> {
  claim: number;
  /** How often the asset was forgotten before; absent: never. */
  forgets?: number;
}

/** The asset was forgotten before: its notifications have other ids than their events were given. */
type Renewed = { renewed?: Pick<ClaimedEvent, 'notificationId' | 'forgets'> };

/** Why nothing of the client is sent until somebody acts. */
type Stopped = 'paused' | 'suspended';

export type Claim =
  | { kind: 'unknown_client' }
  | { kind: 'none'; reason: 'no_new_segments' | 'not_registered' | 'silent' }
  /** The asset is owed by this notification; `again`: it already was. `supersedes`: an older one of its asset was owed, and has ended. */
  | ({ kind: 'claimed'; claim: number; again: boolean; supersedes: boolean; stopped?: Stopped } & Renewed)
  /** The event was claimed before, and its notification has ended or was superseded. */
  | ({ kind: 'ended'; state?: string; stopped?: Stopped } & Renewed)
  /** Claimed again: another event brought the same segments meanwhile. */
  | { kind: 'not_needed' };

/** Returns the id of an event's notification, which only the claim knows. */
export const idOfClaimed = ({ notificationId }: Pick<ArrivedEvent, 'notificationId'>, claim: Claim): string =>
  ('renewed' in claim && claim.renewed?.notificationId) || notificationId;

export type Claims = Takes & { claims: Claim[] };

/** An event that is claimed again: the claim number before the claim that Redis may have lost. */
type Claimable = ArrivedEvent & { lookedUp?: number } & Pick<ClaimedEvent, 'forgets'>;

/** Claims events of one client in one script, and takes the oldest due. @param taking undefined: takes nothing */
export async function claimEvents(
  db: Db,
  clientToken: string,
  events: readonly Claimable[],
  taking?: Taking,
): Promise<Claims> {
  requireData(db);
  const args = inOrder('claim', db.settings);
  for (const event of events) {
    const { notificationId: id, platformId: asset, acceptedAt, group, trace, body } = event;
    const { bucket, field: slot } = assetSlot(asset);
    const values = inOrder('event', {
      bucket,
      slot,
      id,
      idBytes: idToBytes(id),
      asset,
      event: event.eventId,
      lane: event.priority === 'live' ? 'L' : 'B',
      acceptedAt,
      isSilent: !event.notify,
      group,
      lookedUp: event.lookedUp ?? -1,
      forgets: event.forgets ?? 0,
      fingerprints: segmentFingerprints(event.segments),
      trace,
      body,
    });
    args.push(...values);
  }
  return await askTaking<{ claims: Claim[] }>(db, 'claim', clientToken, args, taking);
}

/** Claims events of one client durably and takes nothing: the caller wakes catch-up. */
export const claimOnly = (db: Db, clientToken: string, events: readonly Claimable[]): Promise<Claims> =>
  db.durably((own) => claimEvents(own, clientToken, events)).safe;

/** Claims events of one client again, durably, because Redis may have lost their claims. */
export async function claimAgain(db: Db, clientToken: string, events: readonly ClaimedEvent[]) {
  // Redis may have lost more than the claims.
  await checkMarks(db);
  requireData(db);
  // Redis may have lost the announcement, too.
  await announceClaims(db, clientToken);
  const again = events.map(({ claim: lost, ...event }) => {
    return { ...event, notify: true, group: shared.withoutWorkflow, lookedUp: lost - 1 };
  });
  return claimOnly(db, clientToken, again);
}

export async function noteGroup(db: Db, event: ClaimedEvent, group: string): Promise<void> {
  await runScript(db, 'noteGroup', event.clientToken, [event.notificationId, group]);
}
