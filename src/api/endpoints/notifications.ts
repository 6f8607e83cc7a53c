import type { Middleware } from 'koa';
import {
  listNotifications,
  type NotificationFilter,
  orderOf,
} from '../../redis/notifications/notificationPages.js';
import { type NotificationState, notificationStates } from '../../redis/notifications/notificationStates.js';
import { badParameter } from '../apiError.js';
import { composeSteps } from '../composeSteps.js';
import type { ApiDeps } from '../deps.js';
import { limitAccount } from '../steps/accountRate.js';
import { readLimit } from '../steps/body/readLimit.js';
import { cursorOf, readCursor } from '../steps/notificationCursor.js';
import { type PublisherState, publisherSteps } from '../steps/publisher.js';
import { readQuery, readTime } from '../steps/readQuery.js';
import { presentNotification } from './presentNotification.js';

/** GET /notifications: lists notifications, newest first, page by page. */
export function notificationsEndpoint(deps: ApiDeps): Middleware[] {
  const { db } = deps;
  return composeSteps<PublisherState>(...publisherSteps(db), limitAccount(deps, 'records'), async (ctx) => {
    const filter = readFilter(readQuery(ctx, parameterNames));
    const page = await listNotifications(db, ctx.state.client.clientToken, filter);
    ctx.body = {
      notifications: page.notifications.map(presentNotification),
      ...(page.next !== undefined && { next_cursor: cursorOf(orderOf(filter), page.next) }),
    };
  });
}

const parameterNames = ['state', 'platform_id', 'since', 'until', 'cursor', 'limit'];

/** @throws ApiError 400 */
export function readFilter(given: Record<string, string | undefined>): NotificationFilter {
  const since = readTime('since', given.since);
  const until = readTime('until', given.until);
  if (given.state !== undefined && !isState(given.state)) {
    throw badParameter(`state must be one of ${notificationStates.join(', ')}`);
  }
  const filter = {
    limit: readLimit(given.limit),
    ...(given.state !== undefined && { state: given.state as NotificationState }),
    ...(given.platform_id !== undefined && { platformId: given.platform_id }),
    ...(since !== undefined && { since }),
    ...(until !== undefined && { until }),
  };
  if (given.cursor === undefined) return filter;
  return { ...filter, behind: readCursor(orderOf(filter), given.cursor) };
}

const isState = (value: string): value is NotificationState =>
  (notificationStates as readonly string[]).includes(value);
