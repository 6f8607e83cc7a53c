/** Lists the notifications of a client page by page. */
import { z } from 'zod';
import { badParameter } from '../http/apiError.js';
import { givenTime, limitNumber, notACursor, platformIdText, text } from '../http/schemas.js';
import { isNotificationId } from '../ids.js';
import type { Db } from '../redis/connection/db.js';
import {
  listedSince,
  listNotifications,
  type NotificationOrder,
  orderOf,
  type Position,
} from '../redis/notifications/notificationPages.js';
import { notificationStates } from '../redis/owed/standing.js';

/**
 * The end of a page, as text. The first letter is the order: `a`, by acceptance, with the time (ms) and the notification;
 * `o`, by the time since which it is owed, and `f`, by the time of its failure, with that (ms) and the asset in base64url. The client ends it.
 * `readCursor` checks the content.
 */
export const notificationsCursor = text('a.1769860800000.msg_3q2-7wABAgMEBQYHCAkKCw.SITE0042').regex(
  /^[aof][.](0|[1-9][0-9]{0,15})[.][A-Za-z0-9_-]{1,1366}[.][A-Za-z0-9_:-]{1,128}$/,
  notACursor,
);

export const notificationsQuery = z.object({
  state: z.enum(notificationStates).describe('Only notifications in this state.').optional(),
  platform_id: platformIdText.describe('Only notifications of this asset.').optional(),
  since: givenTime('Accepted at this time or later.').optional(),
  until: givenTime('Accepted at this time or earlier.').optional(),
  cursor: notificationsCursor
    .describe('The next_cursor of the previous page, with the same state and platform_id.')
    .optional(),
  limit: limitNumber,
});

/** Returns a page, the cursor of the next one if more may follow, and since when the list is complete if it is short. @throws ApiError 400 for a wrong cursor */
export async function readPage(db: Db, clientToken: string, asked: z.output<typeof notificationsQuery>) {
  const { platform_id: platformId, cursor: given, ...rest } = asked;
  if ((rest.since ?? 0) > (rest.until ?? Number.POSITIVE_INFINITY))
    throw badParameter('since must not be later than until');
  const order = orderOf({ ...rest, platformId });
  const behind = given === undefined ? undefined : readCursor(order, given, clientToken);
  const { notifications, next } = await listNotifications(db, clientToken, { ...rest, platformId, behind });
  const complete = order === 'accepted' ? await listedSince(db, clientToken) : undefined;
  const isShort = complete !== undefined && complete > (rest.since ?? 0);
  return {
    notifications,
    cursor: next && writeCursor(order, next, clientToken),
    ...(isShort && { listedSince: complete }),
  };
}

const letters: Record<NotificationOrder, string> = { accepted: 'a', owed_since: 'o', failed_at: 'f' };

function writeCursor(order: NotificationOrder, { score, member }: Position, clientToken: string): string {
  const name = order === 'accepted' ? member : Buffer.from(member).toString('base64url');
  return `${letters[order]}.${score}.${name}.${clientToken}`;
}

/** @throws ApiError 400 for a cursor that this call has not answered, or that belongs to another order or client */
function readCursor(order: NotificationOrder, given: string, clientToken: string): Position {
  const [, score = '', name = '', owner] = given.split('.');
  if (owner !== clientToken) throw badParameter(`cursor is of the client ${owner}`);
  const member = order === 'accepted' ? name : Buffer.from(name, 'base64url').toString();
  const isMember = order !== 'accepted' || isNotificationId(member);
  const position = { score: Number(score), member };
  if (!isMember || writeCursor(order, position, clientToken) !== given)
    throw badParameter(`cursor ${notACursor}`);
  return position;
}
