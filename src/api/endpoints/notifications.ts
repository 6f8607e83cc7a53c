import { z } from 'zod';
import { eventIdPattern, isNotificationId } from '../../ids.js';
import type { Db } from '../../redis/connection/db.js';
import { decisions, explainAsset, isKnown } from '../../redis/notifications/decisions.js';
import {
  listedSince,
  listNotifications,
  type NotificationOrder,
  notificationOfEvent,
  orderOf,
  type Position,
} from '../../redis/notifications/notificationPages.js';
import { notificationStates } from '../../redis/owed/standing.js';
import { ApiError, badParameter } from '../apiError.js';
import { clientEndpoint } from '../endpoint.js';
import {
  givenTime,
  limitNumber,
  listedSinceTime,
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
import { requireNotification } from '../steps/publisher.js';
import { presentAsset, presentNotification, presentTime, presentWithAttempts } from './present.js';

/**
 * The end of a page, as text. The first letter is the order: `a`, by acceptance, with the time (ms) and the notification;
 * `o`, by the time since which it is owed, and `f`, by the time of its failure, with that (ms) and the asset in base64url. The client ends it.
 * `readCursor` checks the content.
 */
const cursor = text('a.1769860800000.msg_3q2-7wABAgMEBQYHCAkKCw.SITE0042').regex(
  /^[aof][.](0|[1-9][0-9]{0,15})[.][A-Za-z0-9_-]{1,1366}[.][A-Za-z0-9_:-]{1,128}$/,
  notACursor,
);

export const notificationsQuery = z.object({
  state: z.enum(notificationStates).describe('Only notifications in this state.').optional(),
  platform_id: platformIdText.describe('Only notifications of this asset.').optional(),
  since: givenTime('Accepted at this time or later.').optional(),
  until: givenTime('Accepted at this time or earlier.').optional(),
  cursor: cursor
    .describe('The next_cursor of the previous page, with the same state and platform_id.')
    .optional(),
  limit: limitNumber,
});

export const listNotificationsEndpoint = clientEndpoint({
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
      ...pageMembers(cursor),
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

/** Returns a page, the cursor of the next one if more may follow, and since when the list is complete if it is short. @throws ApiError 400 for a wrong cursor */
export async function readPage(db: Db, clientToken: string, asked: z.output<typeof notificationsQuery>) {
  const { platform_id: platformId, cursor: given, ...rest } = asked;
  if ((rest.since ?? 0) > (rest.until ?? Number.POSITIVE_INFINITY))
    throw badParameter('since must not be later than until');
  const order = orderOf({ ...rest, platformId });
  const behind = given === undefined ? undefined : readCursor(order, given, clientToken);
  const { notifications, next } = await listNotifications(db, clientToken, { ...rest, platformId, behind });
  const complete = order === 'accepted' ? await listedSince(db, clientToken) : undefined;
  const isShort = complete !== undefined && complete > (rest.since ?? 0);
  return {
    notifications,
    cursor: next && writeCursor(order, next, clientToken),
    ...(isShort && { listedSince: complete }),
  };
}

export const getNotificationEndpoint = clientEndpoint({
  route: 'GET /notifications/{id}',
  summary: 'Show a notification and its attempts',
  inPath: z.object({ id: notificationIdText.describe('The notification.') }),
  result: { what: 'The notification.', schema: notificationWithAttempts },
  codes: ['unknown_notification'],
  answer: async ({ db }, { ctx, client }) =>
    presentWithAttempts(await requireNotification(db, client, ctx.params.id)),
});

const letters: Record<NotificationOrder, string> = { accepted: 'a', owed_since: 'o', failed_at: 'f' };

function writeCursor(order: NotificationOrder, { score, member }: Position, clientToken: string): string {
  const name = order === 'accepted' ? member : Buffer.from(member).toString('base64url');
  return `${letters[order]}.${score}.${name}.${clientToken}`;
}

/** @throws ApiError 400 for a cursor that this call has not answered, or that belongs to another order or client */
function readCursor(order: NotificationOrder, given: string, clientToken: string): Position {
  const [, score = '', name = '', owner] = given.split('.');
  if (owner !== clientToken) throw badParameter(`cursor is of the client ${owner}`);
  const member = order === 'accepted' ? name : Buffer.from(name, 'base64url').toString();
  const isMember = order !== 'accepted' || isNotificationId(member);
  const position = { score: Number(score), member };
  if (!isMember || writeCursor(order, position, clientToken) !== given)
    throw badParameter(`cursor ${notACursor}`);
  return position;
}

export const explainEventEndpoint = clientEndpoint({
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

export const explainAssetEndpoint = clientEndpoint({
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
      known_segments: whole(2),
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
