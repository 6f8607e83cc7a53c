import { z } from 'zod';
import { dismiss, recover, redeliver, replay } from '../../acts/sendAgain.js';
import {
  completeSince,
  givenNotificationId,
  givenTime,
  integer,
  notificationIdText,
  oneOfMany,
  reasonText,
  time,
  yesOrNo,
} from '../../http/schemas.js';
import { waitReasons } from '../../redis/owed/waitReasons.js';
import { clientCall } from '../call.js';

const waiting_reason = oneOfMany(waitReasons, 'Why it is not sent now; absent if it is.').optional();

export const redeliverNotificationCall = clientCall({
  act: redeliver,
  route: 'POST /notifications/{id}/redeliver',
  summary: 'Send a notification again',
  description:
    'Sends it again now, under the same id: a waiting one is due immediately, an ended one is owed again. If another of its asset is owed or has failed, that one is due instead, and the answer names it. One call in 5 s for each client, bursts of 8.',
  after503: 'it may be due or under way; a repeat may send it once more, under the same id.',
  inPath: z.object({ id: givenNotificationId.describe('The notification.') }),
  status: 202,
  result: {
    what: 'What is owed now.',
    schema: z.object({
      notification_id: notificationIdText,
      waiting_reason,
    }),
  },
  codes: ['unknown_notification', 'not_registered'],
});

/** Returns what these calls share: they are about notifications which ended in a span of time. */
function range(ended: 'Failed' | 'Delivered', defaultUntil: string) {
  const schema = z.strictObject({
    since: givenTime(`${ended} at this time or later.`),
    until: givenTime(`${ended} at this time or earlier; ${defaultUntil}.`).optional(),
    dry_run: yesOrNo(true, 'Only counts; changes nothing.').optional(),
  });
  const since = '2026-01-30T00:00:00Z';
  const examples = {
    'Only count': { since, until: '2026-01-31T12:00:00.000Z', dry_run: true },
    'All since a time': { since },
  };
  return { body: { schema, examples }, rate: 'records', isLong: true } as const;
}

const coveredUntil = time('The end of the time that was covered.');

const counted = 'One call in 5 s for each client, bursts of 8; with `dry_run` it counts as a read only.';

const failed = {
  ...range('Failed', 'default: now'),
  result: {
    what: 'The number of notifications, and how many more failed in that time: repeat the call for these.',
    schema: z.object({
      count: integer(17),
      more: integer(0),
      until: coveredUntil,
      complete_since: completeSince,
    }),
  },
} as const;

export const recoverNotificationsCall = clientCall({
  ...failed,
  result: { ...failed.result, schema: failed.result.schema.extend({ waiting_reason }) },
  act: recover,
  route: 'POST /notifications/recover',
  summary: 'Recover failed notifications',
  description: `Makes notifications that ended as failed in a span of time owed again, unless their asset has a newer one: the oldest 20,000 of them, and the answer says how many more there are. ${counted}`,
  after503: 'repeat it: it continues with those that are not owed yet.',
});

export const dismissNotificationsCall = clientCall({
  ...failed,
  body: {
    schema: failed.body.schema.extend({
      reason: reasonText.describe('Why nobody needs them any more; for the audit.'),
    }),
    examples: {
      'All since a time': { since: '2026-01-30T00:00:00Z', reason: 'Imported from the weekly export' },
    },
  },
  act: dismiss,
  route: 'POST /notifications/dismiss',
  summary: 'Dismiss failed notifications',
  description: `Lets notifications that ended as failed in a span of time go, because nobody needs them any more: the oldest 20,000 of them end as \`cancelled\`, and the answer says how many more there are. ${counted}`,
  after503: 'repeat it: it continues with those that are left.',
});

const deliveredRange = range(
  'Delivered',
  'at most now; default: the time of the first call with this `since`, for a day',
);

export const replayNotificationsCall = clientCall({
  ...deliveredRange,
  body: {
    ...deliveredRange.body,
    schema: deliveredRange.body.schema.extend({
      stop: yesOrNo(false, 'Stops the replay of this time; what it owes already stays owed.').optional(),
    }),
  },
  act: replay,
  route: 'POST /notifications/replay',
  summary: 'Replay delivered notifications',
  description: `Makes assets delivered in a span of time owed again, for a receiver that has lost them: each asset once, by its newest notification, as \`backfill\`, unless it is owed or was delivered after that time. It goes on in the background, at the drain rate; \`replay\` of \`GET /push_notifications\` says how far it is. The same call while it runs, and for a day after, owes nothing twice; another time meanwhile is 400. ${counted}`,
  after503: 'repeat it: nothing becomes owed twice.',
  result: {
    what: 'The number of assets.',
    schema: z.object({
      count: integer(17),
      at_least: yesOrNo(false, 'Whether there are more than `count`: not all were counted.'),
      until: coveredUntil,
      complete_since: completeSince,
      waiting_reason,
    }),
  },
});
