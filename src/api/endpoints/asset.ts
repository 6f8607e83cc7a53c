import type { Middleware } from 'koa';
import { explainAsset } from '../../redis/owed/decisions.js';
import { ApiError } from '../apiError.js';
import { composeSteps } from '../composeSteps.js';
import type { ApiDeps } from '../deps.js';
import { type PublisherState, publisherSteps } from '../steps/publisher.js';
import { presentNotification } from './presentNotification.js';
import { presentTime } from './presentTime.js';

/** GET /assets/{platform_id}: explains why something was or was not sent about an asset. */
export function assetEndpoint({ db }: ApiDeps): Middleware[] {
  return composeSteps<PublisherState>(...publisherSteps(db, { orPlatform: true }), async (ctx) => {
    const { platformId = '' } = ctx.params;
    const found = await explainAsset(db, ctx.state.client.clientToken, platformId);
    if (!found.lastEvent && found.knownSegments === 0) {
      throw new ApiError('unknown_asset', 'There is no record of this asset for this client');
    }
    ctx.body = {
      platform_id: platformId,
      known_segments: found.knownSegments,
      ...(found.lastEvent && {
        last_event: {
          event_id: found.lastEvent.eventId,
          at: presentTime(found.lastEvent.at),
          decision: found.lastEvent.decision,
        },
      }),
      ...(found.lastNotification && { last_notification: presentNotification(found.lastNotification) }),
    };
  });
}
