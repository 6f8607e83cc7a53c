import { z } from 'zod';
import {
  explainAsset,
  explainEvent,
  listNotifications,
  notificationsCursor,
  notificationsQuery,
  showNotification,
} from '../../acts/notifications.js';
import {
  completeSince,
  eventIdText,
  givenNotificationId,
  integer,
  notification,
  notificationWithAttempts,
  oneOfMany,
  pageMembers,
  platformIdText,
  text,
  time,
} from '../../http/schemas.js';
import { decisions } from '../../redis/notifications/decisions.js';
import { assetCalls, clientCall } from '../call.js';

export const listNotificationsCall = clientCall({
  route: 'GET /notifications',
  summary: 'List notifications',
  description:
    'Lists a client’s notifications page by page, newest first by acceptance; with `state=waiting` and no `platform_id` by the time since which the asset is owed, with `state=failed` by the time of the failure. All waiting and failed ones are listed; of the others the newest 10,000, for 14 days after their end.',
  query: notificationsQuery,
  result: {
    what: 'One page, which may be short or empty although more follow.',
    schema: z.object({
      notifications: z.array(notification),
      complete_since: completeSince,
      ...pageMembers(notificationsCursor),
    }),
  },
  rate: 'records',
  isLong: true,
  act: listNotifications,
});

export const getNotificationCall = clientCall({
  route: 'GET /notifications/{id}',
  summary: 'Show a notification and its attempts',
  inPath: z.object({ id: givenNotificationId.describe('The notification.') }),
  result: { what: 'The notification.', schema: notificationWithAttempts },
  codes: ['unknown_notification'],
  act: showNotification,
});

export const explainEventCall = clientCall({
  route: 'GET /events/{event_id}',
  summary: 'Show the result of an event',
  description:
    'Shows the newest kept notification that names the event. An event that made none is found by its asset only.',
  inPath: z.object({ event_id: eventIdText.describe('The event.') }),
  result: { what: 'The notification.', schema: notification },
  codes: ['unknown_event'],
  rate: 'records',
  isLong: true,
  act: explainEvent,
});

export const [explainAssetCall, explainAssetInPathCall] = assetCalls(
  'GET',
  'Says why something was or was not sent: the last event, the decision about it, the last notification.',
  {
    summary: 'Explain what was sent about an asset',
    act: explainAsset,
    result: {
      what: 'The record of the asset.',
      schema: z.object({
        platform_id: platformIdText,
        known_segments: integer(2),
        last_event: z
          .object({ event_id: text('an-7731'), at: time(), decision: oneOfMany(decisions) })
          .optional(),
        last_notification: notification.optional(),
      }),
    },
    codes: ['unknown_asset'],
  },
);
