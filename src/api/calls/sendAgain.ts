import { z } from 'zod';
import { presentTime } from '../../acts/present.js';
import { requireNotification, requireRegistration } from '../../acts/subjects.js';
import { ApiError, badParameter } from '../../http/apiError.js';
import {
  givenTime,
  integer,
  listedSinceTime,
  notificationIdText,
  time,
  yesOrNo,
} from '../../http/schemas.js';
import { nowOf } from '../../redis/connection/db.js';
import { getNotification } from '../../redis/notifications/notifications.js';
import { recoverFailed, redeliver, replayDelivered } from '../../redis/notifications/redeliver.js';
import { waitReasons } from '../../redis/owed/standing.js';
import { clientCall, type Description } from '../call.js';
import { admitSend } from '../steps/auditCall.js';

export const redeliverNotificationCall = clientCall({
  route: 'POST /notifications/{id}/redeliver',
  summary: 'Send a notification again',
  description:
    'Sends it again now, under the same id: a waiting one is due immediately, an ended one is owed again. If its asset is owed by a newer one, that one is due instead, and the answer names it. One call in 5 s for each client, bursts of 5.',
  after503: 'it may be due or under way; a repeat may send it once more, under the same id.',
  inPath: z.object({ id: notificationIdText.describe('The notification.') }),
  status: 202,
  result: {
    what: 'What is owed now.',
    schema: z.object({
      notification_id: notificationIdText,
      waiting_reason: z.enum(waitReasons).describe('Why it is not sent now; absent if it is.').optional(),
    }),
  },
  codes: ['unknown_notification', 'not_registered'],
  answer: async (deps, request) => {
    const { client, ctx } = request;
    const { notificationId } = await requireNotification(deps.db, client, ctx.params.id);
    await requireRegistration(deps.db, client);
    await admitSend(deps, request, 'notification redeliver', { about: { notification_id: notificationId } });
    const dueId = await deps.db.durably((db) => redeliver(db, client.clientToken, notificationId)).safe;
    // Its record may have expired meanwhile.
    if (dueId === undefined) throw new ApiError('unknown_notification');
    void deps.catchUps.alarm(client.clientToken);
    const why = (await getNotification(deps.db, client.clientToken, dueId))?.waitingReason;
    return { notification_id: dueId, ...(why !== 'due' && why !== 'in_flight' && { waiting_reason: why }) };
  },
});

/** About 1 s of work for Redis, in steps over 3 s. */
const recoveredAtMost = 20_000;

interface RangeRequest
  extends Pick<Description, 'route' | 'summary' | 'description' | 'after503' | 'result'> {
  ended: 'Failed' | 'Delivered';
  defaultUntil: string;
  /** For the audit. */
  what: string;
  makeOwed: (...of: Parameters<typeof replayDelivered>) => Promise<{ count: number }>;
}

/** Declares a call that makes notifications which ended in a span of time owed again. */
function rangeCall({ ended, defaultUntil, what, makeOwed, description, ...of }: RangeRequest) {
  const range = z.strictObject({
    since: givenTime(`${ended} at this time or later.`),
    until: givenTime(`${ended} at this time or earlier; ${defaultUntil}.`).optional(),
    dry_run: yesOrNo(true, 'Only counts; changes nothing.').optional(),
  });
  const since = '2026-01-30T00:00:00Z';
  const examples = {
    'Only count': { since, until: '2026-01-31T12:00:00.000Z', dry_run: true },
    'All since a time': { since },
  };
  return clientCall({
    ...of,
    description: `${description} One call in 5 s for each client, bursts of 5; with \`dry_run\` it counts as a read only.`,
    body: { schema: range, examples },
    rate: 'records',
    isLong: true,
    answer: async (deps, request) => {
      const { clientToken } = request.client;
      const { since, until, dry_run: dryRun = false } = request.body;
      const now = nowOf(deps.db);
      if (until !== undefined && until > now && ended === 'Delivered')
        throw badParameter(`until must not be later than now, ${presentTime(now)}`);
      if (since > (until ?? now)) throw badParameter('since must not be later than until, or now');
      if (!dryRun) {
        const about = { since: presentTime(since), until: until && presentTime(until) };
        await admitSend(deps, request, what, { about });
      }
      const found = await deps.db.durably((db) => makeOwed(db, clientToken, { since, until, dryRun })).safe;
      if (found.count > 0 && !dryRun) void deps.catchUps.alarm(clientToken);
      return found;
    },
  });
}

export const recoverNotificationsCall = rangeCall({
  route: 'POST /notifications/recover',
  summary: 'Recover failed notifications',
  description:
    'Makes notifications that ended as failed in a span of time owed again, unless their asset has a newer one: the oldest 20,000 of them, and the answer says how many more there are.',
  after503: 'repeat it: it continues with those that are not owed yet.',
  ended: 'Failed',
  defaultUntil: 'default: now',
  what: 'notification recover',
  result: {
    what: 'The number of notifications, and how many more failed in that time: repeat the call for these.',
    schema: z.object({ count: integer(17), more: integer(0) }),
  },
  makeOwed: (db, client, range) => recoverFailed(db, client, range, recoveredAtMost),
});

export const replayNotificationsCall = rangeCall({
  route: 'POST /notifications/replay',
  summary: 'Replay delivered notifications',
  description:
    'Makes assets delivered in a span of time owed again, for a receiver that has lost them: each asset once, by its newest notification, as `backfill`, unless it is owed or was delivered after that time.',
  after503: 'repeat it: nothing becomes owed twice.',
  ended: 'Delivered',
  defaultUntil: 'at most now; default: the time of the first call with this `since`, for a day',
  what: 'notification replay',
  result: {
    what: 'The number of assets; `listed_since` if some deliveries of that time may be missing.',
    schema: z.object({
      count: integer(17),
      until: time('The end of the time that was replayed.'),
      listed_since: listedSinceTime.optional(),
    }),
  },
  async makeOwed(db, client, range) {
    const { count, until, listedSince } = await replayDelivered(db, client, range);
    return { count, until: presentTime(until), listed_since: listedSince && presentTime(listedSince) };
  },
});
