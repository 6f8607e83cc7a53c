import { z } from 'zod';
import { recoverFailed, redeliver, replayDelivered } from '../../redis/notifications/redeliver.js';
import { getEndpoint, reportStateChange, resumeEndpoint } from '../../redis/records/endpoint.js';
import { clientEndpoint, type Description } from '../endpoint.js';
import { endpointState, flag, givenTime, notificationIdText, time, whole } from '../reference/schemas.js';
import { auditCall } from '../steps/auditCall.js';
import { limitSends } from '../steps/limits.js';
import { requireNotification, requireRegistration, unknownNotification } from '../steps/publisher.js';
import { presentTime } from './present.js';

export const redeliverEndpoint = clientEndpoint({
  method: 'post',
  path: '/notifications/{id}/redeliver',
  operationId: 'redeliverNotification',
  tag: 'Notifications',
  summary: 'Send a notification again',
  description:
    'Sends it again now, under the same id: a waiting one is due immediately, an ended one is owed again. If its asset is owed by a newer one, that one is due instead, and the answer names it. One call in 5 s for each client, bursts of 5.',
  after503: 'it may be due or under way; a repeat may send it once more, under the same id.',
  inPath: z.object({ id: notificationIdText.describe('The notification.') }),
  status: 202,
  result: { what: 'What is due now.', schema: z.object({ notification_id: notificationIdText }) },
  codes: ['unknown_notification', 'not_registered', 'too_many_requests'],
  answer: async (deps, call) => {
    const { client, ctx } = call;
    const { notificationId } = await requireNotification(deps.db, client, ctx.params.id);
    await requireRegistration(deps.db, client);
    await limitSends(deps.db, client.clientToken);
    await auditCall(deps, call, 'notification redeliver', { about: { notification_id: notificationId } });
    const dueId = await deps.db.durably((db) => redeliver(db, client.clientToken, notificationId)).safe;
    // Its record may have expired meanwhile.
    if (dueId === undefined) throw unknownNotification();
    void deps.catchUps.wake(client.clientToken);
    return { notification_id: dueId };
  },
});

export const resumeEndpointEndpoint = clientEndpoint({
  method: 'post',
  path: '/push_notifications/resume',
  operationId: 'resumePushNotifications',
  tag: 'Endpoint',
  summary: 'Resume a suspended or failing endpoint',
  description:
    'Probes the endpoint now; once it answers 2xx, all owed assets drain. One call in 5 s for each client, bursts of 5.',
  after503: 'repeat it: resuming an endpoint twice does no harm.',
  status: 202,
  result: { what: 'Under way.', schema: z.object({ state: endpointState, owed: whole(12) }) },
  codes: ['not_registered', 'too_many_requests'],
  answer: async (deps, call) => {
    await requireRegistration(deps.db, call.client);
    const { clientToken } = call.client;
    await limitSends(deps.db, clientToken);
    await auditCall(deps, call, 'resume');
    const before = await getEndpoint(deps.db, clientToken);
    await deps.db.durably((db) => resumeEndpoint(db, clientToken, 'publisher')).safe;
    const { state, owed } = await getEndpoint(deps.db, clientToken);
    reportStateChange(deps, { clientToken, from: before.state, to: state, why: 'resumed by the publisher' });
    void deps.catchUps.wake(clientToken);
    return { state, owed };
  },
});

interface RangeCall extends Pick<Description, 'path' | 'operationId' | 'summary' | 'after503' | 'result'> {
  description: string;
  ended: 'Failed' | 'Delivered';
  /** For the audit. */
  what: string;
  makeOwed: (...call: Parameters<typeof recoverFailed>) => Promise<{ count: number }>;
}

/** Declares a call that makes notifications which ended in a span of time owed again. */
function rangeEndpoint({ ended, what, makeOwed, description, ...of }: RangeCall) {
  const range = z.strictObject({
    since: givenTime(`${ended} at this time or later.`),
    until: givenTime(`${ended} at this time or earlier; default: now.`).optional(),
    dry_run: flag(true, 'Only counts; changes nothing.').optional(),
  });
  const since = '2026-01-30T00:00:00Z';
  const examples = {
    'Only count': { since, until: '2026-01-31T12:00:00.000Z', dry_run: true },
    'All since a time': { since },
  };
  return clientEndpoint({
    ...of,
    method: 'post',
    tag: 'Notifications',
    description: `${description} One call in 5 s for each client, bursts of 5; with \`dry_run\` it counts as a read only.`,
    body: { schema: range, examples, atMostBytes: 16 * 1024 },
    rate: 'records',
    answer: async (deps, call) => {
      const { clientToken } = call.client;
      const { since, until = Number.MAX_SAFE_INTEGER, dry_run: dryRun = false } = call.body;
      if (!dryRun) {
        await limitSends(deps.db, clientToken);
        const about = { since: presentTime(since), until: call.body.until && presentTime(until) };
        await auditCall(deps, call, what, { about });
      }
      const found = await deps.db.durably((db) => makeOwed(db, clientToken, { since, until, dryRun })).safe;
      if (found.count > 0 && !dryRun) void deps.catchUps.wake(clientToken);
      return found;
    },
  });
}

export const recoverEndpoint = rangeEndpoint({
  path: '/notifications/recover',
  operationId: 'recoverNotifications',
  summary: 'Recover failed notifications',
  description:
    'Makes notifications that ended as failed in a span of time owed again, unless their asset has a newer one.',
  after503: 'repeat it: notifications that are already owed are not counted again.',
  ended: 'Failed',
  what: 'notification recover',
  result: { what: 'The number of notifications.', schema: z.object({ count: whole(17) }) },
  makeOwed: recoverFailed,
});

export const replayEndpoint = rangeEndpoint({
  path: '/notifications/replay',
  operationId: 'replayNotifications',
  summary: 'Replay delivered notifications',
  description:
    'Makes assets delivered in a span of time owed again, for a receiver that has lost them: each asset once, by its newest notification, as `backfill`, unless it is owed or was delivered after that time.',
  after503:
    'repeat it with the same `until`: nothing becomes owed twice. Without `until` an asset delivered meanwhile is sent again.',
  ended: 'Delivered',
  what: 'notification replay',
  result: {
    what: 'The number of assets; `listed_since` if older deliveries of that time may be missing.',
    schema: z.object({
      count: whole(17),
      listed_since: time('When the oldest kept notification was accepted.').optional(),
    }),
  },
  async makeOwed(db, client, range) {
    const { count, listedSince } = await replayDelivered(db, client, range);
    return { count, listed_since: listedSince && presentTime(listedSince) };
  },
});
