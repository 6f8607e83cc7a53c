import type { Middleware } from 'koa';
import { eventIdPattern } from '../../ids.js';
import { notificationOfEvent } from '../../redis/notifications/eventNotification.js';
import { ApiError } from '../apiError.js';
import { composeSteps } from '../composeSteps.js';
import type { ApiDeps } from '../deps.js';
import { limitAccount } from '../steps/accountRate.js';
import { type PublisherState, publisherSteps } from '../steps/publisher.js';
import { presentNotification } from './presentNotification.js';

/** GET /events/{event_id}: shows the result of an event. */
export function eventEndpoint(deps: ApiDeps): Middleware[] {
  return composeSteps<PublisherState>(
    ...publisherSteps(deps.db, { orPlatform: true }),
    limitAccount(deps, 'records'),
    async (ctx) => {
      const { eventId = '' } = ctx.params;
      const found =
        eventIdPattern.test(eventId) &&
        (await notificationOfEvent(deps.db, ctx.state.client.clientToken, eventId));
      if (!found) throw new ApiError('unknown_event', unknown);
      ctx.body = presentNotification(found);
    },
  );
}

const unknown =
  'No kept notification of this client names this event: the newest 10,000 are kept, each for 14 days after its ' +
  'end. If an event made none, GET /assets/{platform_id} says why, for 14 days or until a later event of its asset';
