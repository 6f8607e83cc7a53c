import type { Middleware } from 'koa';
import {
  listNotifications,
  type NotificationFilter,
  type NotificationState,
  notificationStates,
} from '../store/notifications.js';
import { badParameter } from './apiError.js';
import type { ApiDeps } from './deps.js';
import { endpoint } from './endpoint.js';
import { presentNotification } from './presentNotification.js';
import { type PublisherState, publisherSteps } from './publisher.js';
import { readQuery, readTime } from './readQuery.js';

/** GET /notifications: newest first, page by page. */
export function notificationsEndpoint({ db }: ApiDeps): Middleware[] {
  return endpoint<PublisherState>(...publisherSteps(db), async (ctx) => {
    const filter = readFilter(readQuery(ctx, parameterNames));
    const page = await listNotifications(db, ctx.state.client.clientToken, filter);
    ctx.body = {
      notifications: page.notifications.map(presentNotification),
      ...(page.nextCursor !== undefined && { next_cursor: page.nextCursor }),
    };
  });
}

const parameterNames = ['state', 'platform_id', 'since', 'until', 'cursor', 'limit'];
const defaultLimit = 50;
const maxLimit = 200;

function readFilter(given: Record<string, string | undefined>): NotificationFilter {
  const since = readTime('since', given.since);
  const until = readTime('until', given.until);
  if (given.state !== undefined && !isState(given.state)) {
    throw badParameter(`state must be one of ${notificationStates.join(', ')}`);
  }
  if (given.cursor !== undefined && !/^\d{1,16}(\.\d{1,16})?\.\d{1,9}$/.test(given.cursor)) {
    throw badParameter('cursor is not one that this call has answered');
  }
  const limit = given.limit === undefined ? defaultLimit : Number(given.limit);
  if (!/^\d{1,3}$/.test(given.limit ?? '1') || limit < 1 || limit > maxLimit) {
    throw badParameter(`limit must be a number from 1 to ${maxLimit}`);
  }
  return {
    limit,
    ...(given.state !== undefined && { state: given.state as NotificationState }),
    ...(given.platform_id !== undefined && { platformId: given.platform_id }),
    ...(since !== undefined && { since }),
    ...(until !== undefined && { until }),
    ...(given.cursor !== undefined && { cursor: given.cursor }),
  };
}

const isState = (value: string): value is NotificationState =>
  (notificationStates as readonly string[]).includes(value);
