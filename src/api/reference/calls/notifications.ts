import { eventIdPattern } from '../../../ids.js';
import { recoverBody } from '../../endpoints/recover.js';
import {
  answer,
  anyScope,
  anyScopeOrPlatform,
  inPath,
  jsonBody,
  publisherCall,
  query,
  rateHeaders,
} from '../call.js';
import {
  listOf,
  matching,
  type ObjectSchema,
  object,
  oneOf,
  ref,
  schemaOf,
  text,
  time,
  whole,
} from '../schema.js';
import {
  cursorText,
  decision,
  limitNumber,
  notificationIdText,
  notificationState,
  platformIdText,
} from '../schemas.js';

const at = '2026-01-31T12:00:00.000Z';
const id = 'msg_3q2-7wABAgMEBQYHCAkKCw';
const delivered = {
  ...{ notification_id: id, platform_id: 'vid-9', event_id: 'an-7731', state: 'delivered' },
  ...{ priority: 'live', accepted_at: at, ended_at: at },
};
const attempts = [
  {
    at,
    url: 'https://cms.example.com/hooks/assets',
    milliseconds: 84,
    status: 204,
    remote_address: '198.51.100.7',
  },
];
const ofNotification = inPath('id', 'The notification.', notificationIdText);

const range = schemaOf(recoverBody) as ObjectSchema;
/** Describes the body of a call about notifications that ended so in a span of time. */
const rangeOf = (ended: 'Failed' | 'Delivered') => ({
  ...range,
  properties: {
    since: { ...range.properties.since, ...time(`${ended} at this time or later.`) },
    until: {
      ...range.properties.until,
      ...time(`${ended} at this time or earlier; default: now.`),
    },
    dry_run: { ...range.properties.dry_run, description: 'Only counts; changes nothing.', examples: [true] },
  },
});
const rangeExamples = {
  tried: { summary: 'Only count', value: { since: '2026-01-30T00:00:00Z', until: at, dry_run: true } },
  carriedOut: { summary: 'All since a time', value: { since: '2026-01-30T00:00:00Z' } },
};

export const notificationCalls = {
  '/notifications': {
    get: publisherCall({
      operationId: 'listNotifications',
      tag: 'Notifications',
      summary: 'List notifications',
      description: `Lists a client’s notifications page by page, newest first by acceptance; with \`state=waiting\` and no \`platform_id\` by the time since which the asset is owed. Counts towards the account’s rate \`records\`. ${anyScope}`,
      parameters: [
        query('state', 'Only notifications in this state.', notificationState),
        query('platform_id', 'Only notifications of this asset.', platformIdText),
        query('since', 'Accepted at this time or later.', time()),
        query('until', 'Accepted at this time or earlier.', time()),
        query(
          'cursor',
          'The next_cursor of the previous page, with the same state and platform_id.',
          cursorText,
        ),
        query('limit', 'At most this many.', limitNumber),
      ],
      success: {
        '200': answer(
          'One page. There may be more if it has next_cursor, even if it is short or empty.',
          object({ notifications: listOf(ref('Notification')), next_cursor: cursorText }, 'next_cursor'),
          { notifications: [delivered] },
          rateHeaders,
        ),
      },
      codes: ['too_many_requests'],
    }),
  },
  '/notifications/{id}': {
    get: publisherCall({
      operationId: 'getNotification',
      tag: 'Notifications',
      summary: 'Show a notification and its attempts',
      description: anyScope,
      parameters: [ofNotification],
      success: {
        '200': answer('The notification.', ref('NotificationWithAttempts'), { ...delivered, attempts }),
      },
      codes: ['unknown_notification'],
    }),
  },
  '/notifications/{id}/redeliver': {
    post: publisherCall({
      operationId: 'redeliverNotification',
      tag: 'Notifications',
      summary: 'Send a notification again',
      description: `Sends it again now, under the same id: a waiting one is due immediately, an ended one gets one attempt and the short retries. One call in 5 s for each client, bursts of 5. ${anyScope}`,
      parameters: [ofNotification],
      success: {
        '202': answer(
          'Under way.',
          object({ notification_id: notificationIdText, redelivery: oneOf('due', 'started') }),
          { notification_id: id, redelivery: 'started' },
        ),
      },
      codes: ['unknown_notification', 'not_registered', 'too_many_requests'],
    }),
  },
  '/notifications/recover': {
    post: publisherCall({
      operationId: 'recoverNotifications',
      tag: 'Notifications',
      summary: 'Recover failed notifications',
      description: `Makes notifications that ended as failed in a span of time owed again, unless their asset has a newer one. One call in 5 s for each client, bursts of 5; counts towards the account’s rate \`records\`. ${anyScope}`,
      body: jsonBody(rangeOf('Failed'), rangeExamples),
      success: {
        '200': answer(
          'The number of notifications.',
          object({ count: whole(17) }),
          { count: 17 },
          rateHeaders,
        ),
      },
      codes: ['too_many_requests', 'body_too_long', 'unsupported_media_type'],
    }),
  },
  '/notifications/replay': {
    post: publisherCall({
      operationId: 'replayNotifications',
      tag: 'Notifications',
      summary: 'Replay delivered notifications',
      description: `Makes assets delivered in a span of time owed again, for a receiver that has lost them: each asset once, by its newest notification, as \`backfill\`, unless it is owed or was delivered after that time. One call in 5 s for each client, bursts of 5; counts towards the account’s rate \`records\`. ${anyScope}`,
      body: jsonBody(rangeOf('Delivered'), rangeExamples),
      success: {
        '200': answer(
          'The number of assets; `listed_since` if older deliveries of that time may be missing.',
          object(
            { count: whole(17), listed_since: time('When the oldest kept notification was accepted.') },
            'listed_since',
          ),
          { count: 17 },
          rateHeaders,
        ),
      },
      codes: ['too_many_requests', 'body_too_long', 'unsupported_media_type'],
    }),
  },
  '/events/{event_id}': {
    get: publisherCall({
      operationId: 'explainEvent',
      tag: 'Notifications',
      summary: 'Show the result of an event',
      description: `Shows the newest kept notification that names the event. An event that made none is found by its asset only. Counts towards the account’s rate \`records\`. ${anyScopeOrPlatform}`,
      parameters: [inPath('event_id', 'The event.', matching(eventIdPattern, 'an-7731'))],
      success: { '200': answer('The notification.', ref('Notification'), delivered, rateHeaders) },
      codes: ['unknown_event', 'too_many_requests'],
    }),
  },
  '/assets/{platform_id}': {
    get: publisherCall({
      operationId: 'explainAsset',
      tag: 'Notifications',
      summary: 'Explain what was sent about an asset',
      description: `Says why something was or was not sent: the last event, the decision about it, the last notification. ${anyScopeOrPlatform}`,
      parameters: [inPath('platform_id', 'The asset.', platformIdText)],
      success: {
        '200': answer(
          'The record of the asset.',
          object(
            {
              platform_id: platformIdText,
              known_segments: whole(2),
              last_event: object({ event_id: text('an-7731'), at: time(), decision }),
              last_notification: ref('Notification'),
            },
            ...['last_event', 'last_notification'],
          ),
          {
            platform_id: 'vid-9',
            known_segments: 2,
            last_event: { event_id: 'an-7731', at, decision: 'queued' },
            last_notification: delivered,
          },
        ),
      },
      codes: ['unknown_asset'],
    }),
  },
};
