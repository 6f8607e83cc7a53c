import { z } from 'zod';
import { readUpdates, type UpdatePlace } from '../../redis/notifications/updates.js';
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

/**
 * `u`, the time of the answer (ms), the last notification of the list after its time of acceptance (ms), `0` for none, and
 * the last entry of the stream, `0-0` for none.
 */
const cursor = text('u.1769860801000.1769860800000-msg_3q2-7wABAgMEBQYHCAkKCw.0-0').regex(
  /^u[.][1-9][0-9]{0,15}[.](0|[1-9][0-9]{0,15}-msg_[A-Za-z0-9_-]{22})[.](0-0|[1-9][0-9]{0,15}-(0|[1-9][0-9]{0,15}))$/,
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
    'Lists the updates after `cursor`, oldest first, for callers who prefer asking to receiving, with or without a registered URL. Keep `next_cursor` once you have processed a page, and ask again with it, immediately while `has_more`; an empty page means that nothing is new. No update is skipped, however many arrive meanwhile. An asset may be repeated on a later page; on one page it appears once. The newest 10,000 updates of a client are kept for 14 days.',
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
    const from = { limit, after: after === undefined ? undefined : placeOf(after) };
    // Otherwise a crash of Redis could lose the time that this reader has seen, and a later update could be added before it.
    const page = await db.durably((own) => readUpdates(own, client.clientToken, from)).safe;
    if (page === undefined) throw new ApiError('cursor_expired', expired);
    return {
      updates: page.updates.map(({ platformId, notificationId, updatedAt }) => ({
        platform_id: platformId,
        notification_id: notificationId,
        updated_at: presentTime(updatedAt),
      })),
      has_more: page.hasMore,
      next_cursor: cursorOf(page.end),
    };
  },
});

function cursorOf({ readAt, listed: { score, member }, entry }: UpdatePlace): string {
  return `u.${readAt}.${member === '' ? '0' : `${score}-${member}`}.${entry}`;
}

function placeOf(given: string): UpdatePlace {
  const [, readAt, listed = '', entry = ''] = given.split('.');
  const [score, ...member] = listed.split('-');
  return { readAt: Number(readAt), listed: { score: Number(score), member: member.join('-') }, entry };
}

const expired =
  'Updates after this place are no longer kept: the newest 10,000 of a client are kept for 14 days. Begin again without ' +
  'cursor, and ask the platform about the assets that are not listed';
