/**
 * Cursors of GET /notifications: the end of a page, as text. The first letter is the order: `a`, by acceptance, with
 * the time (ms) and the notification; `o`, by the time since which it is owed, with that (ms) and the asset in base64url.
 */
import { isPlatformId } from '../../delivery/event.js';
import { isNotificationId } from '../../ids.js';
import type { NotificationOrder } from '../../redis/notifications/notificationPages.js';
import type { Place } from '../../redis/notifications/place.js';
import { unknownCursor } from './body/readLimit.js';

/** The pattern in the API description; the content is checked separately. */
export const cursorPattern = '^[ao][.](0|[1-9][0-9]{0,15})[.][A-Za-z0-9_-]{1,1366}$';

const letters: Record<NotificationOrder, string> = { accepted: 'a', owed_since: 'o' };

export function cursorOf(order: NotificationOrder, { score, member }: Place): string {
  const name = order === 'accepted' ? member : Buffer.from(member).toString('base64url');
  return `${letters[order]}.${score}.${name}`;
}

/** @throws ApiError 400 for a cursor that this call has not answered, or that belongs to the other order */
export function readCursor(order: NotificationOrder, cursor: string): Place {
  if (!new RegExp(cursorPattern).test(cursor)) throw unknownCursor();
  const [, score = '', name = ''] = cursor.split('.');
  const member = order === 'accepted' ? name : Buffer.from(name, 'base64url').toString();
  const isMember = order === 'accepted' ? isNotificationId : isPlatformId;
  const place = { score: Number(score), member };
  if (!isMember(member) || cursorOf(order, place) !== cursor) throw unknownCursor();
  return place;
}
