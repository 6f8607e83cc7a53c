import { z } from 'zod';
import { decisions, explainAsset } from '../../redis/owed/decisions.js';
import { ApiError } from '../apiError.js';
import { clientEndpoint } from '../endpoint.js';
import { text, time, whole } from '../reference/schema.js';
import { notification, platformIdText } from '../reference/schemas.js';
import type { PublisherState } from '../steps/publisher.js';
import { presentNotification, presentTime } from './present.js';

export const assetEndpoint = clientEndpoint<PublisherState>({
  method: 'get',
  path: '/assets/{platform_id}',
  operationId: 'explainAsset',
  tag: 'Notifications',
  summary: 'Explain what was sent about an asset',
  description:
    'Says why something was or was not sent: the last event, the decision about it, the last notification.',
  by: 'orPlatform',
  inPath: z.object({ platform_id: platformIdText.describe('The asset.') }),
  answers: {
    200: {
      what: 'The record of the asset.',
      schema: z.object({
        platform_id: platformIdText,
        known_segments: whole(2),
        last_event: z
          .object({ event_id: text('an-7731'), at: time(), decision: z.enum(decisions) })
          .optional(),
        last_notification: notification.optional(),
      }),
    },
  },
  codes: ['unknown_asset'],
  steps: ({ db }) => [
    async (ctx) => {
      const { platform_id: platformId = '' } = ctx.params;
      const found = await explainAsset(db, ctx.state.client.clientToken, platformId);
      if (!found.lastEvent && found.knownSegments === 0) {
        throw new ApiError('unknown_asset', 'There is no record of this asset for this client');
      }
      ctx.body = {
        platform_id: platformId,
        known_segments: found.knownSegments,
        last_event: found.lastEvent && {
          event_id: found.lastEvent.eventId,
          at: presentTime(found.lastEvent.at),
          decision: found.lastEvent.decision,
        },
        last_notification: found.lastNotification && presentNotification(found.lastNotification),
      };
    },
  ],
});
