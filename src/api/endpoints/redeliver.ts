import { z } from 'zod';
import { redeliver } from '../../redis/notifications/notifications.js';
import type { Step } from '../composeSteps.js';
import type { ApiDeps } from '../deps.js';
import { clientEndpoint } from '../endpoint.js';
import { notificationIdText } from '../reference/schemas.js';
import { auditCall } from '../steps/auditCall.js';
import {
  type NotificationStepState,
  type RegistrationState,
  requireOwnNotification,
  requireRegistration,
} from '../steps/publisher.js';
import { limitSends } from '../steps/sendLimit.js';

export type RedeliverState = NotificationStepState & RegistrationState;

export const redeliverEndpoint = clientEndpoint<RedeliverState>({
  method: 'post',
  path: '/notifications/{id}/redeliver',
  operationId: 'redeliverNotification',
  tag: 'Notifications',
  summary: 'Send a notification again',
  description:
    'Sends it again now, under the same id: a waiting one is due immediately, an ended one is owed again. If its asset is owed by a newer one, that one is due instead, and the answer names it. One call in 5 s for each client, bursts of 5.',
  after503: 'it may be due or under way; a repeat may send it once more, under the same id.',
  inPath: z.object({ id: notificationIdText.describe('The notification.') }),
  answers: {
    202: {
      what: 'What is due now.',
      schema: z.object({ notification_id: notificationIdText }),
    },
  },
  codes: ['unknown_notification', 'not_registered', 'too_many_requests'],
  steps: (deps) => [
    requireOwnNotification(deps.db),
    requireRegistration(deps.db),
    limitSends(deps.db),
    auditCall<NotificationStepState>(deps, {
      what: 'notification redeliver',
      about: ({ notification }) => ({ notification_id: notification.notificationId }),
    }),
    sendAgain(deps),
  ],
});

const sendAgain =
  (deps: ApiDeps): Step<NotificationStepState> =>
  async (ctx) => {
    const { clientToken, notificationId } = ctx.state.notification;
    const dueId = await deps.db.durably((db) => redeliver(db, clientToken, notificationId)).safe;
    void deps.catchUps.wake(clientToken, 0);
    ctx.status = 202;
    ctx.body = { notification_id: dueId ?? notificationId };
  };
