/** Why something was or was not sent for an asset. */
import { shared } from '../../constants.js';
import { assetSlot, idOfAnswer } from '../../ids.js';
import type { Db } from '../connection/db.js';
import { runScript } from '../connection/library.js';
import { announceChange } from '../owed/owedClients.js';
import { listNotifications } from './notificationPages.js';
import { getNotification } from './notifications.js';

export const decisions = ['queued', 'not_needed', 'no_new_segments', 'not_registered', 'silent'] as const;
export type Decision = (typeof decisions)[number];

export type AssetExplanation = Awaited<ReturnType<typeof explainAsset>>;

/**
 * Returns the last event of an asset with a kept decision (14 days), at ms; the asset's last notification, while its record is kept; and
 * how many of its segments are known.
 */
export async function explainAsset(db: Db, clientToken: string, platformId: string) {
  const keys = db.client(clientToken);
  const slot = assetSlot(platformId);
  const known = await db.redis.hgetBuffer(keys.known(slot.bucket), slot.field);
  const besides = await db.redis.scard(keys.knownBeside(slot));
  const saved = await db.redis.get(keys.decision(platformId));
  const lastId = known === null ? undefined : idOfAnswer(known.subarray(4, 20));
  const kept = lastId === undefined ? undefined : await getNotification(db, clientToken, lastId);
  const made = kept ?? (await failedNotification(db, clientToken, platformId));
  const none =
    saved === null ? undefined : (JSON.parse(saved) as { event_id: string; at: number; decision: Decision });
  const queued = made && { eventId: made.eventId, at: made.acceptedAt, decision: 'queued' as const };
  const isNone = none !== undefined && (queued === undefined || none.at >= queued.at);
  return {
    platformId,
    knownSegments:
      known === null ? 0 : (known.length - shared.knownHeaderBytes) / shared.fingerprintBytes + besides,
    lastEvent: isNone ? { eventId: none.event_id, at: none.at, decision: none.decision } : queued,
    lastNotification: made,
  };
}

/** A failed notification is kept for longer than its record. */
async function failedNotification(db: Db, clientToken: string, platformId: string) {
  const wanted = { state: 'failed', platformId, limit: 1 } as const;
  const [found] = (await listNotifications(db, clientToken, wanted)).notifications;
  return found && { ...found, attempts: [] };
}

export const isKnown = ({ lastEvent, knownSegments }: AssetExplanation): boolean =>
  lastEvent !== undefined || knownSegments > 0;

export function decisionInWords({ lastEvent }: AssetExplanation): string {
  if (lastEvent === undefined) return 'there was none in the last 14 days';
  if (lastEvent.decision === 'queued') return 'queued: it brought a segment that the asset did not have';
  return `sent nothing: ${whyNotSent[lastEvent.decision]}`;
}

export const whyNotSent: Record<Exclude<Decision, 'queued'>, string> = {
  not_needed: 'another event brought the same segments first',
  no_new_segments: 'the asset already had its segments',
  not_registered: 'the client had no URL',
  silent: 'the platform asked for silence (notify: false)',
};

/**
 * Forgets an asset in one step: its known segments, its last decision, and the notification by which it is owed or that has failed, which
 * ends as `cancelled`. Its next event is new. Safe to repeat.
 */
export async function forgetAsset(db: Db, clientToken: string, platformId: string) {
  const { bucket, field } = assetSlot(platformId);
  const args = [platformId, bucket, field, db.settings.keepSegmentsSeconds];
  const [knownSegments, cancelled] = await runScript<[number, string]>(db, 'forgetAsset', clientToken, args);
  // Its owed assets are counted anew.
  if (cancelled) await announceChange(db, clientToken);
  return { knownSegments, ...(cancelled && { cancelled }) };
}
