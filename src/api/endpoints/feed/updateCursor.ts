/**
 * Cursors of GET /updates: `u`, when it was answered (ms), the last notification of the list with its time of acceptance
 * (ms) before it, `0` for none, and the last entry of the stream, `0-0` for none.
 */
import type { UpdatePlace } from '../../../redis/notifications/updates.js';
import { badParameter } from '../../apiError.js';

/** As the API description says it. */
export const updateCursorPattern =
  '^u[.][1-9][0-9]{0,15}[.](0|[1-9][0-9]{0,15}-msg_[A-Za-z0-9_-]{22})[.](0-0|[1-9][0-9]{0,15}-(0|[1-9][0-9]{0,15}))$';

const pattern = new RegExp(updateCursorPattern);

export function updateCursorOf({ readAt, listed: { score, member }, entry }: UpdatePlace): string {
  return `u.${readAt}.${member === '' ? '0' : `${score}-${member}`}.${entry}`;
}

/** @throws ApiError 400 for what this call has not answered */
export function readUpdateCursor(cursor: string): UpdatePlace {
  if (!pattern.test(cursor)) throw badParameter('after is not a next_cursor that this call has answered');
  const [, readAt, listed = '', entry = ''] = cursor.split('.');
  const [score, ...member] = listed.split('-');
  return { readAt: Number(readAt), listed: { score: Number(score), member: member.join('-') }, entry };
}
