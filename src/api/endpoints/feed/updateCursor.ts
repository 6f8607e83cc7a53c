/**
 * Writes and reads cursors of GET /updates: `u`, the time of the answer (ms), the last notification of the list after its
 * time of acceptance (ms), `0` for none, and the last entry of the stream, `0-0` for none.
 */
import type { UpdatePlace } from '../../../redis/notifications/updates.js';
import { badParameter } from '../../apiError.js';

/** As in the API description. */
export const updateCursorPattern =
  '^u[.][1-9][0-9]{0,15}[.](0|[1-9][0-9]{0,15}-msg_[A-Za-z0-9_-]{22})[.](0-0|[1-9][0-9]{0,15}-(0|[1-9][0-9]{0,15}))$';

const pattern = new RegExp(updateCursorPattern);

export function updateCursorOf({ readAt, listed: { score, member }, entry }: UpdatePlace): string {
  return `u.${readAt}.${member === '' ? '0' : `${score}-${member}`}.${entry}`;
}

/** @throws ApiError 400 for a text that is no cursor of this call */
export function readUpdateCursor(cursor: string): UpdatePlace {
  if (!pattern.test(cursor)) throw badParameter('after is not a next_cursor of this call');
  const [, readAt, listed = '', entry = ''] = cursor.split('.');
  const [score, ...member] = listed.split('-');
  return { readAt: Number(readAt), listed: { score: Number(score), member: member.join('-') }, entry };
}
