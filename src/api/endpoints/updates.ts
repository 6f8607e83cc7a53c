import { z } from 'zod';
import { readUpdates } from '../../redis/notifications/updates.js';
import { ApiError } from '../apiError.js';
import { clientEndpoint } from '../endpoint.js';
import {
  limitNumber,
  notACursor,
  notificationIdText,
  pageMembers,
  platformIdText,
  text,
  time,
} from '../reference/schemas.js';
import { presentTime } from './present.js';

/** `u` and the last entry of the feed that was read, `0-0` for none. */
const cursor = text('u.1769860800000-0').regex(
  /^u[.](0-0|[1-9][0-9]{0,15}-(0|[1-9][0-9]{0,15}))$/,
  notACursor,
);

const update = z.object({
  platform_id: platformIdText,
  notification_id: notificationIdText.describe('The `webhook-id` of its notification, if one was made.'),
  updated_at: time(),
});

export const updatesEndpoint = clientEndpoint({
  method: 'get',
  path: '/updates',
  operationId: 'listUpdates',
  tag: 'Notifications',
  summary: 'List assets with new segments',
  description:
    'Lists the updates after `cursor`, oldest first, for callers who prefer asking to receiving, with or without a registered URL. Keep `next_cursor` once you have processed a page, and ask again with it, immediately while `has_more`; an empty page means that nothing is new. No update is skipped, however many arrive meanwhile. An asset may be repeated on a later page; on one page it appears once. The newest 10,000 updates of a client are kept.',
  query: z.object({
    cursor: cursor
      .describe('The next_cursor of the previous answer; if absent, from the oldest kept update.')
      .optional(),
    limit: limitNumber,
  }),
  result: {
    what: 'The next updates; none if nothing is new.',
    schema: z.object({ updates: z.array(update), ...pageMembers(cursor), next_cursor: cursor }),
  },
  codes: ['cursor_expired'],
  rate: 'records',
  answer: async ({ db }, { client, query: { cursor: after, limit } }) => {
    const from = { limit, after: after?.slice('u.'.length) };
    // A crash of Redis must not lose an update that this reader has seen: the reader's position would be gone.
    const page = await db.durably((own) => readUpdates(own, client.clientToken, from)).safe;
    if (page === undefined) throw new ApiError('cursor_expired', expired);
    return {
      updates: page.updates.map(({ platformId, notificationId, updatedAt }) => ({
        platform_id: platformId,
        notification_id: notificationId,
        updated_at: presentTime(updatedAt),
      })),
      has_more: page.hasMore,
      next_cursor: `u.${page.end}`,
    };
  },
});

const expired =
  'Updates after this place are no longer kept: the newest 10,000 of a client are. Begin again without ' +
  'cursor, and ask the platform about the assets that are not listed';
