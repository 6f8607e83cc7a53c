import { z } from 'zod';
import { eventIdPattern } from '../../ids.js';
import { notificationOfEvent } from '../../redis/notifications/eventNotification.js';
import { ApiError } from '../apiError.js';
import { clientEndpoint } from '../endpoint.js';
import { matching } from '../reference/schema.js';
import { notification } from '../reference/schemas.js';
import { limitAccount } from '../steps/accountRate.js';
import type { PublisherState } from '../steps/publisher.js';
import { presentNotification } from './present.js';

export const eventEndpoint = clientEndpoint<PublisherState>({
  method: 'get',
  path: '/events/{event_id}',
  operationId: 'explainEvent',
  tag: 'Notifications',
  summary: 'Show the result of an event',
  description:
    'Shows the newest kept notification that names the event. An event that made none is found by its asset only.',
  by: 'orPlatform',
  inPath: z.object({ event_id: matching(eventIdPattern, 'an-7731', 'The event.') }),
  answers: { 200: { what: 'The notification.', schema: notification } },
  codes: ['unknown_event'],
  rate: 'records',
  steps: (deps) => [
    limitAccount(deps, 'records'),
    async (ctx) => {
      const { event_id: eventId = '' } = ctx.params;
      const found =
        eventIdPattern.test(eventId) &&
        (await notificationOfEvent(deps.db, ctx.state.client.clientToken, eventId));
      if (!found) throw new ApiError('unknown_event', unknown);
      ctx.body = presentNotification(found);
    },
  ],
});

const unknown =
  'No kept notification of this client names this event: the newest 10,000 are kept, each for 14 days after its ' +
  'end. If an event made none, GET /assets/{platform_id} says why, for 14 days or until a later event of its asset';
