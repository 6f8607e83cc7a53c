import { z } from 'zod';
import { isPlatformId } from '../../delivery/event.js';
import { eventIdPattern, isNotificationId } from '../../ids.js';
import {
  listNotifications,
  type NotificationFilter,
  type NotificationOrder,
  notificationOfEvent,
  orderOf,
} from '../../redis/notifications/notificationPages.js';
import { notificationStates } from '../../redis/notifications/notifications.js';
import type { Place } from '../../redis/notifications/place.js';
import { decisions, explainAsset } from '../../redis/owed/decisions.js';
import { ApiError, badParameter } from '../apiError.js';
import { clientEndpoint } from '../endpoint.js';
import {
  givenTime,
  limitNumber,
  matching,
  notACursor,
  notification,
  notificationIdText,
  notificationWithAttempts,
  pageMembers,
  platformIdText,
  text,
  time,
  whole,
} from '../reference/schemas.js';
import { checked } from '../steps/json.js';
import { limitAccount } from '../steps/limits.js';
import {
  type NotificationStepState,
  type PublisherState,
  requireOwnNotification,
} from '../steps/publisher.js';
import { readQuery } from '../steps/query.js';
import { presentNotification, presentTime, presentWithAttempts } from './present.js';

/**
 * The end of a page, as text. The first letter is the order: `a`, by acceptance, with the time (ms) and the notification;
 * `o`, by the time since which it is owed, with that (ms) and the asset in base64url. `readCursor` checks the content.
 */
const cursor = text('a.1769860800000.msg_3q2-7wABAgMEBQYHCAkKCw').regex(
  /^[ao][.](0|[1-9][0-9]{0,15})[.][A-Za-z0-9_-]{1,1366}$/,
  notACursor,
);

const query = z.object({
  state: z.enum(notificationStates).describe('Only notifications in this state.').optional(),
  platform_id: platformIdText.describe('Only notifications of this asset.').optional(),
  since: givenTime('Accepted at this time or later.').optional(),
  until: givenTime('Accepted at this time or earlier.').optional(),
  cursor: cursor
    .describe('The next_cursor of the previous page, with the same state and platform_id.')
    .optional(),
  limit: limitNumber,
});

export const notificationsEndpoint = clientEndpoint<PublisherState>({
  method: 'get',
  path: '/notifications',
  operationId: 'listNotifications',
  tag: 'Notifications',
  summary: 'List notifications',
  description:
    'Lists a client’s notifications page by page, newest first by acceptance; with `state=waiting` and no `platform_id` by the time since which the asset is owed.',
  query,
  answers: {
    200: {
      what: 'One page, which may be short or empty although more follow.',
      schema: z.object({ notifications: z.array(notification), ...pageMembers(cursor) }),
    },
  },
  codes: [],
  rate: 'records',
  steps: (deps) => [
    limitAccount(deps, 'records'),
    async (ctx) => {
      const filter = filterOf(readQuery(ctx, query));
      const page = await listNotifications(deps.db, ctx.state.client.clientToken, filter);
      ctx.body = {
        notifications: page.notifications.map(presentNotification),
        has_more: page.next !== undefined,
        next_cursor: page.next && cursorOf(orderOf(filter), page.next),
      };
    },
  ],
});

export const notificationEndpoint = clientEndpoint<NotificationStepState>({
  method: 'get',
  path: '/notifications/{id}',
  operationId: 'getNotification',
  tag: 'Notifications',
  summary: 'Show a notification and its attempts',
  inPath: z.object({ id: notificationIdText.describe('The notification.') }),
  answers: { 200: { what: 'The notification.', schema: notificationWithAttempts } },
  codes: ['unknown_notification'],
  steps: ({ db }) => [
    requireOwnNotification(db),
    async (ctx) => {
      ctx.body = presentWithAttempts(ctx.state.notification);
    },
  ],
});

/** @param given the parameters of GET /notifications @throws ApiError 400 */
export const readFilter = (given: Record<string, string | undefined>): NotificationFilter =>
  filterOf(checked(query, given));

function filterOf({
  platform_id: platformId,
  cursor: given,
  ...rest
}: z.output<typeof query>): NotificationFilter {
  const filter = { ...rest, platformId };
  return given === undefined ? filter : { ...filter, behind: readCursor(orderOf(filter), given) };
}

const letters: Record<NotificationOrder, string> = { accepted: 'a', owed_since: 'o' };

export function cursorOf(order: NotificationOrder, { score, member }: Place): string {
  const name = order === 'accepted' ? member : Buffer.from(member).toString('base64url');
  return `${letters[order]}.${score}.${name}`;
}

/** @throws ApiError 400 for a cursor that this call has not answered, or that belongs to the other order */
function readCursor(order: NotificationOrder, given: string): Place {
  const [, score = '', name = ''] = given.split('.');
  const member = order === 'accepted' ? name : Buffer.from(name, 'base64url').toString();
  const isMember = order === 'accepted' ? isNotificationId : isPlatformId;
  const place = { score: Number(score), member };
  if (!isMember(member) || cursorOf(order, place) !== given) throw badParameter(`cursor ${notACursor}`);
  return place;
}

export const eventEndpoint = clientEndpoint<PublisherState>({
  method: 'get',
  path: '/events/{event_id}',
  operationId: 'explainEvent',
  tag: 'Notifications',
  summary: 'Show the result of an event',
  description:
    'Shows the newest kept notification that names the event. An event that made none is found by its asset only.',
  by: 'orPlatform',
  inPath: z.object({ event_id: matching(eventIdPattern, 'an-7731', 'The event.') }),
  answers: { 200: { what: 'The notification.', schema: notification } },
  codes: ['unknown_event'],
  rate: 'records',
  steps: (deps) => [
    limitAccount(deps, 'records'),
    async (ctx) => {
      const { event_id: eventId = '' } = ctx.params;
      const found =
        eventIdPattern.test(eventId) &&
        (await notificationOfEvent(deps.db, ctx.state.client.clientToken, eventId));
      if (!found) throw new ApiError('unknown_event', unknown);
      ctx.body = presentNotification(found);
    },
  ],
});

const unknown =
  'No kept notification of this client names this event: the newest 10,000 are kept, each for 14 days after its ' +
  'end. If an event made none, GET /assets/{platform_id} says why, for 14 days or until a later event of its asset';

export const assetEndpoint = clientEndpoint<PublisherState>({
  method: 'get',
  path: '/assets/{platform_id}',
  operationId: 'explainAsset',
  tag: 'Notifications',
  summary: 'Explain what was sent about an asset',
  description:
    'Says why something was or was not sent: the last event, the decision about it, the last notification.',
  by: 'orPlatform',
  inPath: z.object({ platform_id: platformIdText.describe('The asset.') }),
  answers: {
    200: {
      what: 'The record of the asset.',
      schema: z.object({
        platform_id: platformIdText,
        known_segments: whole(2),
        last_event: z
          .object({ event_id: text('an-7731'), at: time(), decision: z.enum(decisions) })
          .optional(),
        last_notification: notification.optional(),
      }),
    },
  },
  codes: ['unknown_asset'],
  steps: ({ db }) => [
    async (ctx) => {
      const { platform_id: platformId = '' } = ctx.params;
      const found = await explainAsset(db, ctx.state.client.clientToken, platformId);
      if (!found.lastEvent && found.knownSegments === 0) {
        throw new ApiError('unknown_asset', 'There is no record of this asset for this client');
      }
      ctx.body = {
        platform_id: platformId,
        known_segments: found.knownSegments,
        last_event: found.lastEvent && {
          event_id: found.lastEvent.eventId,
          at: presentTime(found.lastEvent.at),
          decision: found.lastEvent.decision,
        },
        last_notification: found.lastNotification && presentNotification(found.lastNotification),
      };
    },
  ],
});
