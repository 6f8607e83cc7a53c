import { updateCursorPattern } from '../../endpoints/feed/updateCursor.js';
import { answer, publisherCall, query, rateHeaders } from '../call.js';
import { listOf, object, text, time } from '../schema.js';
import { limitNumber, notificationIdText, platformIdText } from '../schemas.js';

const notification_id = 'msg_3q2-7wABAgMEBQYHCAkKCw';
const nextCursor = `u.1769860801000.1769860800000-${notification_id}.0-0`;
const cursor = text(nextCursor, { pattern: updateCursorPattern });

const update = object({
  platform_id: platformIdText,
  notification_id: {
    ...notificationIdText,
    description: 'The `webhook-id` of its notification, where the client had a URL and one was made.',
  },
  updated_at: time(),
});

export const updateCalls = {
  '/updates': {
    get: publisherCall({
      operationId: 'listUpdates',
      tag: 'Notifications',
      summary: 'List assets with new segments',
      description:
        'Lists updates oldest first, from behind `after` on: for who would rather ask than be told, with or without a registered URL. Keep `next_cursor` once you have dealt with a page, and ask with it again; an empty page means that nothing is new. No update is skipped, however many arrive meanwhile; an asset may come more than once, and stands once on a page. The newest 10,000 updates of a client are kept, for 14 days. Counts into the account’s rate `records`. Ask for a token with the scope `push_notifications`; any scope of the account is taken.',
      parameters: [
        query('after', 'The next_cursor of the answer before; absent: from the oldest that is kept.', cursor),
        query('limit', 'At most so many.', limitNumber),
      ],
      success: {
        '200': answer(
          'The next updates; none where nothing is new.',
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
