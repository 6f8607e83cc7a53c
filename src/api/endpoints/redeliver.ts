import type { Middleware } from 'koa';
import { makeDue } from '../../redis/notifications/notifications.js';
import { startRedeliver } from '../../temporal/redeliver.js';
import { composeSteps, type Step } from '../composeSteps.js';
import type { ApiDeps } from '../deps.js';
import { auditCall } from '../steps/auditCall.js';
import { type NotificationStepState, requireOwnNotification } from '../steps/ownNotification.js';
import { publisherSteps, type RegistrationState, requireRegistration } from '../steps/publisher.js';
import { limitSends } from '../steps/sendLimit.js';
import { askTemporal } from './askTemporal.js';
import { wakeClient } from './wakeClient.js';

/** POST /notifications/{id}/redeliver: sends it again now. A waiting one is due immediately, an ended one gets one attempt. */
export function redeliverEndpoint(deps: ApiDeps): Middleware[] {
  return composeSteps<RedeliverState>(...publisherSteps(deps.db), ...redeliverSteps(deps));
}

export type RedeliverState = NotificationStepState & RegistrationState;

/** Returns the steps that follow once the caller and the client are known. */
export function redeliverSteps(deps: ApiDeps): Step<RedeliverState>[] {
  return [
    requireOwnNotification(deps.db),
    requireRegistration(deps.db),
    limitSends(deps.db),
    auditCall<NotificationStepState>(deps, {
      what: 'notification redeliver',
      about: ({ notification }) => ({ notification_id: notification.notificationId }),
    }),
    redeliver(deps),
  ];
}

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
