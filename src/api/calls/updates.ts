import { z } from 'zod';
import { presentMicroseconds, presentReach, presentTime } from '../../acts/present.js';
import { ApiError, badParameter } from '../../http/apiError.js';
import type { ApiContext } from '../../http/context.js';
import {
  completeSince,
  givenTime,
  notACursor,
  notificationIdText,
  numberFrom,
  pageMembers,
  platformIdText,
  reachMembers,
  text,
  time,
  yesOrNo,
} from '../../http/schemas.js';
import { nowOf } from '../../redis/connection/db.js';
import { feedSince, type Place, placeBefore, readUpdates } from '../../redis/notifications/updates.js';
import { getEndpoint } from '../../redis/records/endpoint.js';
import { getRegistration } from '../../redis/records/registrations.js';
import { clientCall } from '../call.js';
import type { ApiDeps } from '../deps.js';
import { bearerToken } from '../steps/publisher.js';

/** `u`, the last position of the feed that was read, the asset there in base64url, and the client. */
const cursor = text('u.1769860800000000.dmlkLTk.SITE0042').regex(
  /^u[.](0|[1-9][0-9]{0,15})[.][A-Za-z0-9_-]{0,1366}[.][A-Za-z0-9_-]{1,64}$/,
  notACursor,
);

const writeCursor = ({ position, platformId }: Place, clientToken: string) =>
  `u.${position}.${Buffer.from(platformId).toString('base64url')}.${clientToken}`;

/** @throws ApiError 400 for a cursor that this call has not answered, or of another client */
function readCursor(given: string, clientToken: string): Place {
  const [, position = '', asset = '', owner] = given.split('.');
  if (owner !== clientToken) throw badParameter(`cursor is of the client ${owner}`);
  const platformId = Buffer.from(asset, 'base64url').toString();
  const place = { position: Number(position), platformId, isCursor: true };
  if (writeCursor(place, clientToken) !== given) throw badParameter(`cursor ${notACursor}`);
  return place;
}

const update = z.object({
  platform_id: platformIdText,
  notified: yesOrNo(true, 'Whether a notification was made: there was a URL.'),
  notification_id: notificationIdText.describe('Its `webhook-id`; absent if none was made.').optional(),
  updated_at: time('When the event was claimed.'),
});

export const listUpdatesCall = clientCall({
  route: 'GET /updates',
  summary: 'List assets with new segments',
  description:
    'Lists each asset once, by its newest update, in the order of these, for callers who prefer asking to receiving, with or without a registered URL. Keep `next_cursor` once you have processed a page, and ask again with it, immediately while `has_more`; an empty page means that nothing is new. With `wait` the answer comes as soon as there is an update. No asset is skipped, however many updates arrive meanwhile: one with a newer update comes again, on a later page.',
  query: z.object({
    cursor: cursor
      .describe('The next_cursor of the previous answer; if absent, from the beginning.')
      .optional(),
    since: givenTime('In place of a cursor: updates at this time or later.').optional(),
    limit: numberFrom(1, 1000, 50, 'The most entries of a page.'),
    wait: numberFrom(0, 20, 0, 'For how many seconds the call may wait for an update if there is none.'),
  }),
  result: {
    what: 'The next updates; none if nothing is new.',
    schema: z.object({
      updates: z.array(update),
      ...pageMembers(cursor),
      next_cursor: cursor,
      ...reachMembers,
      complete_since: completeSince,
    }),
  },
  codes: ['cursor_expired'],
  rate: 'records',
  answer: async (deps, { ctx, client, query: { cursor: after, since, limit, wait } }) => {
    if (after !== undefined && since !== undefined) throw badParameter('give cursor or since, not both');
    const { clientToken } = client;
    const read = async (place?: Place) => {
      // A crash of Redis must not lose an update that this reader has seen: the reader's position would be gone.
      const take = () => deps.db.durably((own) => readUpdates(own, clientToken, limit, place)).safe;
      const page = await deps.inTurn(ctx, `${client.accountId} updates`, take);
      if (page === undefined) throw new ApiError('cursor_expired');
      return page;
    };
    // Before the page, which then has every update that this is true of.
    const reach = async () =>
      presentReach(await getRegistration(deps.db, clientToken), await getEndpoint(deps.db, clientToken));
    let reached = await reach();
    const beginning = since === undefined ? undefined : placeBefore(Math.min(since, nowOf(deps.db)));
    let page = await read(after === undefined ? beginning : readCursor(after, clientToken));
    if (page.updates.length === 0 && wait > 0 && (await isNew(deps, ctx, clientToken, page.end, wait))) {
      // The token may have ended meanwhile.
      await deps.findToken(bearerToken(ctx));
      reached = await reach();
      page = await read(page.end);
    }
    return {
      updates: page.updates.map(({ platformId, notificationId, updatedAtUs }) => ({
        platform_id: platformId,
        notified: notificationId !== undefined,
        ...(notificationId && { notification_id: notificationId }),
        updated_at: presentMicroseconds(updatedAtUs),
      })),
      has_more: page.hasMore,
      next_cursor: writeCursor(page.end, clientToken),
      ...reached,
      complete_since: presentTime(feedSince(deps.db)),
    };
  },
});

/** Waits for an update until the time is over, the caller hangs up or the process ends. @returns whether there may be one */
async function isNew(deps: ApiDeps, ctx: ApiContext, clientToken: string, place: Place, seconds: number) {
  const { socket } = ctx.req;
  const begun = performance.now();
  const ended = new AbortController();
  const end = () => ended.abort();
  if (socket.readableEnded || socket.closed) end();
  socket.once('end', end).once('close', end);
  try {
    return await deps.updateWaits.next(clientToken, place, seconds * 1000, ended.signal);
  } finally {
    socket.off('end', end).off('close', end);
    ctx.state.waitedMs = (ctx.state.waitedMs ?? 0) + performance.now() - begun;
  }
}
