import { z } from 'zod';
import { makeDue } from '../../redis/notifications/notifications.js';
import { startRedeliver } from '../../temporal/redeliver.js';
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
import { askTemporal, wakeClient } from './askTemporal.js';

export type RedeliverState = NotificationStepState & RegistrationState;

export const redeliverEndpoint = clientEndpoint<RedeliverState>({
  method: 'post',
  path: '/notifications/{id}/redeliver',
  operationId: 'redeliverNotification',
  tag: 'Notifications',
  summary: 'Send a notification again',
  description:
    'Sends it again now, under the same id: a waiting one is due immediately, an ended one gets one attempt and the short retries. One call in 5 s for each client, bursts of 5.',
  after503: 'it may be under way; a repeat may send it once more, under the same id.',
  inPath: z.object({ id: notificationIdText.describe('The notification.') }),
  answers: {
    202: {
      what: 'Under way.',
      schema: z.object({ notification_id: notificationIdText, redelivery: z.enum(['due', 'started']) }),
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
    redeliver(deps),
  ],
});

const redeliver =
  (deps: ApiDeps): Step<NotificationStepState> =>
  async (ctx) => {
    const { clientToken, notificationId, platformId } = ctx.state.notification;
    const outcome = await makeDue(deps.db, clientToken, notificationId);
    if (outcome === 'due') {
      await wakeClient(deps, clientToken);
    } else {
      const { temporal, config, log } = deps;
      const start = startRedeliver(temporal, { clientToken, platformId, notificationId }, config.TASK_QUEUE);
      await askTemporal(log, start);
    }
    ctx.status = 202;
    ctx.body = { notification_id: notificationId, redelivery: outcome === 'due' ? 'due' : 'started' };
  };
