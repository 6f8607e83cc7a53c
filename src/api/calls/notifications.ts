import { z } from 'zod';
import { notificationsCursor, notificationsQuery, readPage } from '../../acts/notifications.js';
import { presentAsset, presentNotification, presentTime, presentWithAttempts } from '../../acts/present.js';
import { requireNotification } from '../../acts/subjects.js';
import { ApiError } from '../../http/apiError.js';
import {
  integer,
  listedSinceTime,
  matching,
  notification,
  notificationIdText,
  notificationWithAttempts,
  pageMembers,
  platformIdText,
  text,
  time,
} from '../../http/schemas.js';
import { eventIdPattern } from '../../ids.js';
import { decisions, explainAsset, isKnown } from '../../redis/notifications/decisions.js';
import { notificationOfEvent } from '../../redis/notifications/notificationPages.js';
import { clientCall } from '../call.js';

export const listNotificationsCall = clientCall({
  route: 'GET /notifications',
  summary: 'List notifications',
  description:
    'Lists a client’s notifications page by page, newest first by acceptance; with `state=waiting` and no `platform_id` by the time since which the asset is owed, with `state=failed` by the time of the failure. All waiting and failed ones are listed; of the others the newest 10,000, and then `listed_since` says since when the list is complete.',
  query: notificationsQuery,
  result: {
    what: 'One page, which may be short or empty although more follow.',
    schema: z.object({
      notifications: z.array(notification),
      listed_since: listedSinceTime.optional(),
      ...pageMembers(notificationsCursor),
    }),
  },
  rate: 'records',
  isLong: true,
  answer: async ({ db }, { client, query: asked }) => {
    const found = await readPage(db, client.clientToken, asked);
    const { notifications, cursor: next_cursor, listedSince } = found;
    return {
      notifications: notifications.map(presentNotification),
      listed_since: listedSince && presentTime(listedSince),
      has_more: next_cursor !== undefined,
      next_cursor,
    };
  },
});

export const getNotificationCall = clientCall({
  route: 'GET /notifications/{id}',
  summary: 'Show a notification and its attempts',
  inPath: z.object({ id: notificationIdText.describe('The notification.') }),
  result: { what: 'The notification.', schema: notificationWithAttempts },
  codes: ['unknown_notification'],
  answer: async ({ db }, { ctx, client }) =>
    presentWithAttempts(await requireNotification(db, client, ctx.params.id)),
});

export const explainEventCall = clientCall({
  route: 'GET /events/{event_id}',
  summary: 'Show the result of an event',
  description:
    'Shows the newest kept notification that names the event. An event that made none is found by its asset only.',
  by: 'orPlatform',
  inPath: z.object({ event_id: matching(eventIdPattern, 'an-7731', 'The event.') }),
  result: { what: 'The notification.', schema: notification },
  codes: ['unknown_event'],
  rate: 'records',
  isLong: true,
  answer: async ({ db }, { ctx, client }) => {
    const { event_id: eventId = '' } = ctx.params;
    const isId = eventIdPattern.test(eventId);
    const found = isId && (await notificationOfEvent(db, client.clientToken, eventId));
    if (!found) throw new ApiError('unknown_event');
    return presentNotification(found);
  },
});

export const explainAssetCall = clientCall({
  route: 'GET /assets/{platform_id}',
  summary: 'Explain what was sent about an asset',
  description:
    'Says why something was or was not sent: the last event, the decision about it, the last notification.',
  by: 'orPlatform',
  inPath: z.object({ platform_id: platformIdText.describe('The asset.') }),
  result: {
    what: 'The record of the asset.',
    schema: z.object({
      platform_id: platformIdText,
      known_segments: integer(2),
      last_event: z.object({ event_id: text('an-7731'), at: time(), decision: z.enum(decisions) }).optional(),
      last_notification: notification.optional(),
    }),
  },
  codes: ['unknown_asset'],
  answer: async ({ db }, { ctx, client }) => {
    const { platform_id: platformId = '' } = ctx.params;
    const found = await explainAsset(db, client.clientToken, platformId);
    if (!isKnown(found)) throw new ApiError('unknown_asset');
    const { lastNotification } = found;
    return {
      ...presentAsset(found),
      last_notification: lastNotification && presentNotification(lastNotification),
    };
  },
});
