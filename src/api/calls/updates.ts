import { z } from 'zod';
import { presentTime } from '../../acts/present.js';
import type { Subject } from '../../acts/subjects.js';
import { ApiError, badParameter } from '../../http/apiError.js';
import type { ApiContext } from '../../http/context.js';
import {
  notACursor,
  notificationIdText,
  numberFrom,
  pageMembers,
  platformIdText,
  text,
  time,
} from '../../http/schemas.js';
import { readUpdates } from '../../redis/notifications/updates.js';
import { clientCall } from '../call.js';
import type { ApiDeps } from '../deps.js';
import { bearerToken } from '../steps/publisher.js';

/** `u`, the last entry of the feed that was read (`0-0`: none), and the client, which earlier versions left out. */
const cursor = text('u.1769860800000-0.SITE0042').regex(
  /^u[.](0-0|[1-9][0-9]{0,15}-(0|[1-9][0-9]{0,15}))([.][A-Za-z0-9_-]{1,64})?$/,
  notACursor,
);

const update = z.object({
  platform_id: platformIdText,
  notification_id: notificationIdText.describe('The `webhook-id` of its notification, if one was made.'),
  updated_at: time(),
});

export const listUpdatesCall = clientCall({
  route: 'GET /updates',
  summary: 'List assets with new segments',
  description:
    'Lists the updates after `cursor`, oldest first, for callers who prefer asking to receiving, with or without a registered URL. Keep `next_cursor` once you have processed a page, and ask again with it, immediately while `has_more`; an empty page means that nothing is new. With `wait` the answer comes as soon as there is an update. No update is skipped, however many arrive meanwhile. An asset may be repeated on a later page; on one page it appears once. The newest 100,000 updates of a client are kept.',
  query: z.object({
    cursor: cursor
      .describe('The next_cursor of the previous answer; if absent, from the oldest kept update.')
      .optional(),
    limit: numberFrom(1, 1000, 50, 'At most this many.'),
    wait: numberFrom(0, 20, 0, 'For how many seconds the call may wait for an update if there is none.'),
  }),
  result: {
    what: 'The next updates; none if nothing is new.',
    schema: z.object({ updates: z.array(update), ...pageMembers(cursor), next_cursor: cursor }),
  },
  codes: ['cursor_expired'],
  rate: 'records',
  answer: async (deps, { ctx, client, query: { cursor: after, limit, wait } }) => {
    const read = async (position?: string) => {
      // A crash of Redis must not lose an update that this reader has seen: the reader's position would be gone.
      const take = () => deps.db.durably((own) => readUpdates(own, client.clientToken, limit, position)).safe;
      const page = await deps.inTurn(ctx, `${client.accountId} updates`, take);
      if (page === undefined) throw new ApiError('cursor_expired');
      return page;
    };
    const [, position, owner = client.clientToken] = after?.split('.') ?? [];
    if (owner !== client.clientToken) throw badParameter(`cursor is of the client ${owner}`);
    let page = await read(position);
    if (page.updates.length === 0 && wait > 0 && (await isNew(deps, ctx, client, page.end, wait))) {
      // The token may have ended meanwhile.
      await deps.findToken(bearerToken(ctx));
      page = await read(page.end);
    }
    return {
      updates: page.updates.map(({ platformId, notificationId, updatedAt }) => ({
        platform_id: platformId,
        notification_id: notificationId,
        updated_at: presentTime(updatedAt),
      })),
      has_more: page.hasMore,
      next_cursor: `u.${page.end}.${client.clientToken}`,
    };
  },
});

/** Waits for an update until the time is over, the caller hangs up or the process ends. @returns whether there may be one */
async function isNew(
  { updateWaits }: ApiDeps,
  { req: { socket }, state }: ApiContext,
  { clientToken }: Subject,
  position: string,
  seconds: number,
): Promise<boolean> {
  const begun = performance.now();
  const ended = new AbortController();
  const end = () => ended.abort();
  if (socket.readableEnded || socket.closed) end();
  socket.once('end', end).once('close', end);
  try {
    return await updateWaits.next(clientToken, position, seconds * 1000, ended.signal);
  } finally {
    socket.off('end', end).off('close', end);
    state.waitedMs = (state.waitedMs ?? 0) + performance.now() - begun;
  }
}
