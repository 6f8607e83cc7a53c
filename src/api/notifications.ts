import type { Middleware } from 'koa';
import {
  listNotifications,
  type NotificationFilter,
  type NotificationState,
  notificationStates,
} from '../store/notifications.js';
import { limitAccount } from './accountRate.js';
import { badParameter } from './apiError.js';
import type { ApiDeps } from './deps.js';
import { endpoint } from './endpoint.js';
import { presentNotification } from './presentNotification.js';
import { type PublisherState, publisherSteps } from './publisher.js';
import { readLimit, unknownCursor } from './readLimit.js';
import { readQuery, readTime } from './readQuery.js';

/** GET /notifications: newest first, page by page. */
export function notificationsEndpoint(deps: ApiDeps): Middleware[] {
  const { db } = deps;
  return endpoint<PublisherState>(...publisherSteps(db), limitAccount(deps, 'records'), async (ctx) => {
    const filter = readFilter(readQuery(ctx, parameterNames));
    const page = await listNotifications(db, ctx.state.client.clientToken, filter);
    ctx.body = {
      notifications: page.notifications.map(presentNotification),
      ...(page.nextCursor !== undefined && { next_cursor: page.nextCursor }),
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
  if (given.cursor !== undefined && !/^\d{1,16}(\.\d{1,16})?\.\d{1,9}$/.test(given.cursor)) {
    throw unknownCursor();
  }
  return {
    limit: readLimit(given.limit),
    ...(given.state !== undefined && { state: given.state as NotificationState }),
    ...(given.platform_id !== undefined && { platformId: given.platform_id }),
    ...(since !== undefined && { since }),
    ...(until !== undefined && { until }),
    ...(given.cursor !== undefined && { cursor: given.cursor }),
  };
}

const isState = (value: string): value is NotificationState =>
  (notificationStates as readonly string[]).includes(value);
