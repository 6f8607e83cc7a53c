import { z } from 'zod';
import { isPlatformId } from '../../delivery/event.js';
import { isNotificationId } from '../../ids.js';
import {
  listNotifications,
  type NotificationFilter,
  type NotificationOrder,
  orderOf,
} from '../../redis/notifications/notificationPages.js';
import { notificationStates } from '../../redis/notifications/notificationStates.js';
import type { Place } from '../../redis/notifications/place.js';
import { badParameter } from '../apiError.js';
import { clientEndpoint } from '../endpoint.js';
import { givenTime, text } from '../reference/schema.js';
import {
  limitNumber,
  notACursor,
  notification,
  notificationIdText,
  notificationWithAttempts,
  pageMembers,
  platformIdText,
} from '../reference/schemas.js';
import { limitAccount } from '../steps/accountRate.js';
import {
  type NotificationStepState,
  type PublisherState,
  requireOwnNotification,
} from '../steps/publisher.js';
import { checkedQuery, readQuery } from '../steps/readQuery.js';
import { presentNotification, presentWithAttempts } from './present.js';

/**
 * The end of a page, as text. The first letter is the order: `a`, by acceptance, with the time (ms) and the notification;
 * `o`, by the time since which it is owed, with that (ms) and the asset in base64url. `readCursor` checks the content.
 */
const cursor = text('a.1769860800000.msg_3q2-7wABAgMEBQYHCAkKCw').regex(
  /^[ao][.](0|[1-9][0-9]{0,15})[.][A-Za-z0-9_-]{1,1366}$/,
  notACursor,
);

const query = z.object({
  state: z
    .enum(notificationStates, `must be one of ${notificationStates.join(', ')}`)
    .describe('Only notifications in this state.')
    .optional(),
  platform_id: platformIdText.describe('Only notifications of this asset.').optional(),
  since: givenTime('Accepted at this time or later.').optional(),
  until: givenTime('Accepted at this time or earlier.').optional(),
  cursor: cursor
    .describe('The next_cursor of the previous page, with the same state and platform_id.')
    .optional(),
  limit: limitNumber,
});

/** Newest first, page by page. */
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
  filterOf(checkedQuery(query, given));

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
