import { updateCursorPattern } from '../../endpoints/feed/updateCursor.js';
import { answer, anyScope, publisherCall, query, rateHeaders } from '../call.js';
import { listOf, object, text, time } from '../schema.js';
import { limitNumber, notificationIdText, platformIdText } from '../schemas.js';

const notification_id = 'msg_3q2-7wABAgMEBQYHCAkKCw';
const nextCursor = `u.1769860801000.1769860800000-${notification_id}.0-0`;
const cursor = text(nextCursor, { pattern: updateCursorPattern });

const update = object({
  platform_id: platformIdText,
  notification_id: {
    ...notificationIdText,
    description: 'The `webhook-id` of its notification, if one was made.',
  },
  updated_at: time(),
});

export const updateCalls = {
  '/updates': {
    get: publisherCall({
      operationId: 'listUpdates',
      tag: 'Notifications',
      summary: 'List assets with new segments',
      description: `Lists the updates after \`after\`, oldest first, for callers who prefer asking to receiving, with or without a registered URL. Keep \`next_cursor\` once you have processed a page, and ask again with it; an empty page means that nothing is new. No update is skipped, however many arrive meanwhile. An asset may be repeated on a later page; on one page it appears once. The newest 10,000 updates of a client are kept for 14 days. Counts towards the account’s rate \`records\`. ${anyScope}`,
      parameters: [
        query(
          'after',
          'The next_cursor of the previous answer; if absent, from the oldest kept update.',
          cursor,
        ),
        query('limit', 'The most entries of a page.', limitNumber),
      ],
      success: {
        '200': answer(
          'The next updates; none if nothing is new.',
          object({ updates: listOf(update), next_cursor: cursor }),
          {
            updates: [{ platform_id: 'vid-9', notification_id, updated_at: '2026-01-31T12:00:00.000Z' }],
            next_cursor: nextCursor,
          },
          rateHeaders,
        ),
      },
      codes: ['cursor_expired', 'too_many_requests'],
    }),
  },
};
