/** Notifications: listed, shown, sent again, cancelled, recovered. */
import { z } from 'zod';
import { cancelNotification, listNotifications, showNotification } from '../acts/notifications.js';
import { dismiss, reasonsForNone, recover, redeliver, replay, resend } from '../acts/sendAgain.js';
import { completeSince, integer, platformIdText, text, time, yesOrNo } from '../http/schemas.js';
import { attemptErrors } from '../outgoing/details.js';
import { notificationStates } from '../redis/owed/standing.js';
import { type WaitReason, waitReasons, waits } from '../redis/owed/waitReasons.js';
import { listedAnswer, shownAnswer, standing } from './explain.js';
import {
  anyClient,
  choice,
  flag,
  inOrder,
  notificationId,
  spanMs,
  when,
  whenText,
  wholeNumber,
} from './input.js';
import { actOperation, listed, operation } from './operation.js';
import { requireClient } from './subjects.js';
import { capital, shownOf } from './terminal.js';

const limit = wholeNumber('Give a whole number from 1 to 10000.', { to: 10_000 });

export const notificationList = operation({
  command: 'notification list',
  does: 'list notifications of all clients or of one, the newest first: by acceptance, waiting ones by the time since which they are owed, failed ones by the failure',
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
    const found = await listNotifications(operator, asked);
    const { notifications, next_cursor: next, complete_since: since } = found;
    const says: string[] = [];
    // A command may print the list alone.
    const tell = page.isNewest ? (line: string) => void says.push(line) : operator.warn;
    if (next && page.limit > limit) tell(`Showing ${limit}. More results are available: raise the limit.`);
    if (since !== null && Date.parse(since) > (options.since ?? 0))
      says.push(`The list is complete since ${since}.`);
    const columns =
      'notification_id client_token platform_id state accepted_at waiting_reason next_attempt_at';
    return listed(notifications, { columns, none: 'No notifications match.', next }, ...says);
  },
});

const input = z.object({ notification_id: notificationId });

export const notificationShow = actOperation({
  act: showNotification,
  does: 'show one notification and its attempts',
  input,
  answers: shownAnswer,
  shown: ({ found, ...value }) => [standing(found), ...shownOf(value)],
});

const waitingReason = z.enum(waitReasons).describe('Why it is not sent now; absent if it is.').optional();

export const notificationRedeliver = actOperation({
  act: redeliver,
  button: 'Send again now',
  does: 'send a notification again now, or make a waiting one due',
  input,
  answers: z.object({
    notification_id: notificationId,
    client_token: anyClient,
    previous_state: z.enum(notificationStates),
    waiting_reason: waitingReason,
  }),
  shown({ notification_id: dueId, previous_state: was, waiting_reason: why }, { notification_id: id }) {
    const which =
      dueId === id ? `${id} (it was ${was})` : `Another of its asset that was owed or had failed, ${dueId},`;
    return [`${which} is ${why === undefined ? 'due now' : `owed: ${waits[why].says}`}.`];
  },
});

export const notificationCancel = actOperation({
  act: cancelNotification,
  button: 'Cancel',
  does: 'cancel a waiting notification',
  input,
  answers: z.object({ notification_id: notificationId, client_token: anyClient, state: text('cancelled') }),
  shown: ({ notification_id: id }) => [`${id} is cancelled.`],
});

const notSent = (why?: WaitReason) => (why ? [`They are not sent now: ${waits[why].says}.`] : []);

const counted = { client_token: anyClient, count: integer(17), dry_run: yesOrNo(false) };
const noneFailed = 'none failed then, or each was recovered, dismissed or has a newer one since';

const ofFailed = (act: typeof recover, verb: string, done: string, does: string) =>
  actOperation({
    ...range(verb, 'failed', 'now'),
    act,
    does,
    shown: ({ count, dry_run, more, since, until, waiting_reason: why }) => [
      `${count} ${dry_run ? 'would be' : 'are'} ${done}${count === 0 ? `: ${noneFailed}` : ''}.${more > 0 ? ` ${more} are left: repeat it.` : ''}`,
      ...notSent(why),
      `Failed from ${since} to ${until}.`,
    ],
  });

export const notificationRecover = ofFailed(
  recover,
  'recover',
  'owed again',
  'make failed notifications owed again, unless the asset has a newer one',
);
export const notificationDismiss = ofFailed(
  dismiss,
  'dismiss',
  'dismissed',
  'let failed notifications go that nobody needs any more: they end as cancelled',
);

const replayed = range('replay', 'delivered', 'the time of the first such call in a day');

const whyNone: Record<(typeof reasonsForNone)[number], string> = {
  already_replayed: 'this time was replayed in the last day, and a repeat sends nothing twice',
  owed_again_lately: 'all of them were owed again in the last 10 minutes',
  none_delivered: 'no asset has a newest notification that was delivered then',
};

const replayInput = inOrder(
  replayed.fields.extend({
    since: whenText.describe(replayed.fields.shape.since.description ?? ''),
    until: whenText.optional().describe(replayed.fields.shape.until.description ?? ''),
    stop: flag('stop the replay of this time'),
    again: flag('also what was replayed or recovered in the last 10 minutes'),
  }),
);

export const notificationReplay = actOperation({
  ...replayed,
  input: replayInput,
  act: replay,
  asked: ({ since, until, ...given }: z.output<typeof replayInput>) => ({
    ...given,
    since: when.parse(since),
    until: until === undefined ? undefined : when.parse(until),
    relative: [since, until].some((at) => spanMs(at ?? '') !== undefined)
      ? `${since}:${until ?? ''}`
      : undefined,
  }),
  does: 'make delivered assets owed again, for a receiver that has lost them',
  shown: (
    { count, at_least, dry_run, left_out, since, until, none_because: why, waiting_reason: waiting },
    { stop },
  ) => [
    `${at_least ? 'At least ' : ''}${count} ${stop ? 'were owed again: it is stopped' : dry_run ? 'would be owed again' : count === 0 ? 'are owed again' : 'are owed again, at the drain rate'}${why && !stop ? `: ${whyNone[why]}` : ''}.`,
    ...(left_out > 0
      ? [`${left_out} left out, which were owed again in the last 10 minutes: --again takes these too.`]
      : []),
    ...notSent(waiting),
    `Delivered from ${since} to ${until}.`,
  ],
});

const failures = ['failed', ...attemptErrors] as const;

export const notificationResend = actOperation({
  act: resend,
  button: 'Send these again',
  does: 'send the notifications of a list again, each asset once',
  input: inOrder(
    z.object({
      client_token: anyClient,
      state: choice(notificationStates).optional().describe('only in this state'),
      platform_id: platformIdText.optional().describe('only of this asset'),
      since: when.optional().describe('accepted since this date, or this long ago (15m, 2h, 3d)'),
      until: when.optional().describe('accepted until then'),
      failure: choice(failures)
        .optional()
        .describe('whose last attempt failed, in any way or with this error'),
      dry_run: flag('only count'),
    }),
  ),
  answers: z.object({
    ...counted,
    since: time().nullable(),
    until: time(),
    has_more: yesOrNo(false, 'Whether more may match than were looked at.'),
  }),
  shown: ({ count, dry_run, has_more, since, until }) => [
    `${count} ${dry_run ? 'would be' : 'are'} sent again.${has_more ? ' More may match: narrow the time.' : ''}`,
    `Accepted ${since ? `from ${since} to` : 'until'} ${until}.`,
  ],
});

/** Returns what these operations share: they make notifications which ended in a span of time owed again. */
function range(verb: string, ended: string, untilDefault: string) {
  const given = `${ended} since this date, or this long ago (15m, 2h, 3d)`;
  const fields = z.object({
    client_token: anyClient,
    since: when.describe(given),
    until: when.optional().describe(`${ended} until then (default: ${untilDefault})`),
    dry_run: flag('only count'),
  });
  return {
    button: verb === 'replay' ? 'Send delivered again' : `${capital(verb)} failed`,
    fields,
    input: inOrder(fields),
    answers: z.object({
      ...counted,
      more: integer(3, 'So many are left: repeat it.').optional(),
      at_least: yesOrNo(false, 'Whether there are more than `count`: not all were counted.').optional(),
      left_out: integer(0, 'Those that were owed again in the last 10 minutes.').optional(),
      none_because: z.enum(reasonsForNone).describe('Why `count` is 0.').optional(),
      since: time('The time that was covered.'),
      until: time(),
      complete_since: completeSince,
      waiting_reason: waitingReason,
    }),
  };
}
