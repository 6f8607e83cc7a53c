/** Notifications: listed, shown, sent again, cancelled, recovered. */
import { z } from 'zod';
import { cancelNotification, listNotifications, showNotification } from '../acts/notifications.js';
import { dismiss, recover, redeliver, replay } from '../acts/sendAgain.js';
import { integer, text, time, yesOrNo } from '../http/schemas.js';
import { findNotification } from '../redis/notifications/notifications.js';
import { notificationStates } from '../redis/owed/standing.js';
import { waitReasons, waits } from '../redis/owed/waitReasons.js';
import { listedAnswer, shownAnswer, standing } from './explain.js';
import { anyClient, choice, flag, inOrder, notificationId, when, wholeNumber } from './input.js';
import { actOperation, listed, type Operator, operation, Refused, requireClient } from './operation.js';
import { shownOf } from './terminal.js';

const limit = wholeNumber('Give a whole number from 1 to 10000.', { to: 10_000 });

export const notificationList = operation({
  command: 'notification list',
  does: 'list the newest notifications, of all clients or of one',
  input: inOrder(
    z.object({
      client: anyClient.optional().describe('only of this client'),
      state: choice(notificationStates).optional().describe('only in this state'),
      since: when.optional().describe('accepted since this date, or this long ago (15m, 2h, 3d)'),
      limit: limit.default(50).describe('how many to list'),
    }),
  ),
  answers: listedAnswer,
  list: 'notifications',
  acts: [listNotifications],
  async run(operator, { client: token, ...options }, page) {
    const client = token === undefined ? undefined : await requireClient(operator, token);
    const limit = Math.min(options.limit, page.limit);
    const asked = { client, ...options, limit, cursor: page.after };
    const {
      notifications,
      next_cursor: next,
      listed_since: since,
    } = await listNotifications(operator, asked);
    const says: string[] = [];
    if (next && page.limit > limit)
      says.push(`Showing ${limit}. More results are available: raise the limit.`);
    if (since !== undefined) says.push(`Accepted before ${since} they are no longer listed.`);
    const columns =
      'notification_id client_token platform_id state accepted_at waiting_reason next_attempt_at';
    return listed(notifications, { columns, none: 'No notifications match.', next }, ...says);
  },
});

const input = z.object({ notification_id: notificationId });

const asked = async (operator: Operator, { notification_id: id }: z.output<typeof input>) => {
  const { clientToken } = await requireNotification(operator, id);
  return { client: await requireClient(operator, clientToken), id };
};

export const notificationShow = actOperation({
  act: showNotification,
  asked,
  command: 'notification show <notification-id>',
  does: 'show one notification and its attempts',
  input,
  answers: shownAnswer,
  shown: ({ found, ...value }) => [standing(found), ...shownOf(value)],
});

export const notificationRedeliver = actOperation({
  act: redeliver,
  asked,
  command: 'notification redeliver <notification-id>',
  does: 'send a notification again now, or make a waiting one due',
  input,
  answers: z.object({
    notification_id: notificationId,
    client_token: anyClient,
    previous_state: z.enum(notificationStates),
    waiting_reason: z.enum(waitReasons).describe('Why it is not sent now; absent if it is.').optional(),
  }),
  shown({ notification_id: dueId, previous_state: was, waiting_reason: why }, { notification_id: id }) {
    const which = dueId === id ? `${id} (it was ${was})` : `Its asset is owed by the newer ${dueId}, which`;
    return [`${which} is ${why === undefined ? 'due now' : `owed: ${waits[why].says}`}.`];
  },
});

export const notificationCancel = actOperation({
  act: cancelNotification,
  asked,
  command: 'notification cancel <notification-id>',
  does: 'cancel a waiting notification',
  input,
  answers: z.object({ notification_id: notificationId, client_token: anyClient, state: text('cancelled') }),
  shown: ({ notification_id: id }) => [`${id} is cancelled.`],
});

/** In 30 s: a connection without a byte is closed after 60. */
const recoveredAtMost = 200_000;

const askedFailed = async (operator: Operator, { client_token, dry_run: dryRun, ...span }: RangeInput) => ({
  client: await requireClient(operator, client_token),
  ...span,
  dryRun,
  atMost: recoveredAtMost,
});

export const notificationRecover = actOperation({
  ...range('recover', 'failed', 'now'),
  act: recover,
  asked: askedFailed,
  does: 'make failed notifications owed again, unless the asset has a newer one',
  shown: ({ count, dry_run, more }) => [
    `${count} ${dry_run ? 'would be' : 'are'} owed again.${more > 0 ? ` ${more} are left: repeat it.` : ''}`,
  ],
});

export const notificationDismiss = actOperation({
  ...range('dismiss', 'failed', 'now'),
  act: dismiss,
  asked: askedFailed,
  does: 'let failed notifications go that nobody needs any more: they end as cancelled',
  shown: ({ count, dry_run, more }) => [
    `${count} ${dry_run ? 'would be' : 'are'} dismissed.${more > 0 ? ` ${more} are left: repeat it.` : ''}`,
  ],
});

export const notificationReplay = actOperation({
  ...range('replay', 'delivered', 'the time of the first such call in a day'),
  act: replay,
  asked: async (operator, { client_token, dry_run: dryRun, ...span }) => ({
    client: await requireClient(operator, client_token),
    ...span,
    dryRun,
  }),
  does: 'make delivered assets owed again, for a receiver that has lost them',
  shown: ({ count, dry_run, listed_since: since }) => [
    `${count} ${dry_run ? 'would be' : 'are'} owed again.${since ? ` What was accepted before ${since} may be missing.` : ''}`,
  ],
});

type RangeInput = z.output<ReturnType<typeof range>['input']>;

/** Returns what these operations share: they make notifications which ended in a span of time owed again. */
function range(verb: string, ended: string, untilDefault: string) {
  const given = `${ended} since this date, or this long ago (15m, 2h, 3d)`;
  return {
    command: `notification ${verb} <token>`,
    input: inOrder(
      z.object({
        client_token: anyClient,
        since: when.describe(given),
        until: when.optional().describe(`${ended} until then (default: ${untilDefault})`),
        dry_run: flag('only count'),
      }),
    ),
    answers: z.object({
      client_token: anyClient,
      count: integer(17),
      dry_run: yesOrNo(false),
      more: integer(3, 'So many are left: repeat it.').optional(),
      until: time('The end of the time that was replayed.').optional(),
      listed_since: time('Set if deliveries of what was accepted earlier may be missing.').optional(),
    }),
  };
}

/** @throws Refused if there is no such notification */
async function requireNotification(operator: Operator, id: string) {
  const found = await findNotification(await operator.db(), id);
  if (found !== undefined) return found;
  throw new Refused(
    `There is no notification ${id}: records are kept for 14 days after their end. ` +
      "Search Temporal's UI for a workflow whose id ends with it, or ask for its asset: explain CLIENT PLATFORM_ID.",
    'unknown_notification',
  );
}
