import type { Middleware } from 'koa';
import { composeSteps } from '../composeSteps.js';
import type { ApiDeps } from '../deps.js';
import { type NotificationStepState, requireOwnNotification } from '../steps/ownNotification.js';
import { publisherSteps } from '../steps/publisher.js';
import { presentWithAttempts } from './presentNotification.js';

/** GET /notifications/{id}: shows one notification and its attempts. */
export function notificationEndpoint({ db }: ApiDeps): Middleware[] {
  return composeSteps<NotificationStepState>(
    ...publisherSteps(db),
    requireOwnNotification(db),
    async (ctx) => {
      ctx.body = presentWithAttempts(ctx.state.notification);
    },
  );
}
