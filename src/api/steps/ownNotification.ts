import { isNotificationId } from '../../ids.js';
import type { Db } from '../../redis/connection/db.js';
import { getNotification, type NotificationRecord } from '../../redis/notifications/notifications.js';
import { ApiError } from '../apiError.js';
import type { Step } from '../composeSteps.js';
import type { PublisherState } from './publisher.js';

export interface NotificationStepState extends PublisherState {
  notification: NotificationRecord;
}

/** Finds the client's notification by the id in the path, as state.notification. @throws ApiError 404 */
export const requireOwnNotification =
  (db: Db): Step<NotificationStepState> =>
  async (ctx, next) => {
    const { id = '' } = ctx.params;
    const found = isNotificationId(id) && (await getNotification(db, ctx.state.client.clientToken, id));
    if (!found) throw new ApiError('unknown_notification', 'This client has no such notification');
    ctx.state.notification = found;
    await next();
  };
