import type { Middleware } from 'koa';
import { readUpdates } from '../../../redis/notifications/updates.js';
import { ApiError } from '../../apiError.js';
import { composeSteps } from '../../composeSteps.js';
import type { ApiDeps } from '../../deps.js';
import { limitAccount } from '../../steps/accountRate.js';
import { readLimit } from '../../steps/body/readLimit.js';
import { type PublisherState, publisherSteps } from '../../steps/publisher.js';
import { readQuery } from '../../steps/readQuery.js';
import { presentTime } from '../presentTime.js';
import { readUpdateCursor, updateCursorOf } from './updateCursor.js';

/** GET /updates: lists assets with new segments, oldest first, for callers who prefer asking to receiving. */
export function updatesEndpoint(deps: ApiDeps): Middleware[] {
  return composeSteps<PublisherState>(
    ...publisherSteps(deps.db),
    limitAccount(deps, 'records'),
    async (ctx) => {
      const { after, limit } = readQuery(ctx, ['after', 'limit']);
      const page = await readUpdates(deps.db, ctx.state.client.clientToken, {
        limit: readLimit(limit),
        ...(after !== undefined && { after: readUpdateCursor(after) }),
      });
      // Without this a crash of Redis could lose the time that this reader has seen, and a later update could be added before it.
      await deps.durability.reached(ctx.state.client.clientToken);
      if (page === undefined) throw new ApiError('cursor_expired', expired);
      ctx.body = {
        updates: page.updates.map(({ platformId, notificationId, updatedAt }) => ({
          platform_id: platformId,
          notification_id: notificationId,
          updated_at: presentTime(updatedAt),
        })),
        next_cursor: updateCursorOf(page.end),
      };
    },
  );
}

const expired =
  'Updates after this place are no longer kept: the newest 10,000 of a client are kept for 14 days. Begin again without ' +
  'after, and ask the platform about the assets that are not listed';
