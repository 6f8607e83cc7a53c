import { z } from 'zod';
import type { ClientToken } from '../../ids.js';
import type { Db } from '../../redis/connection/db.js';
import { recoverFailed, redeliver, replayDelivered } from '../../redis/notifications/redeliver.js';
import { getEndpoint, resumeEndpoint, tellStateChange } from '../../redis/records/endpoint.js';
import { clientEndpoint, type Description } from '../endpoint.js';
import { endpointState, flag, givenTime, notificationIdText, time, whole } from '../reference/schemas.js';
import type { Step } from '../step.js';
import { auditCall } from '../steps/auditCall.js';
import { checked } from '../steps/json.js';
import { limitAccount, limitSends } from '../steps/limits.js';
import {
  type NotificationStepState,
  type PublisherState,
  type RegistrationState,
  requireOwnNotification,
  requireRegistration,
} from '../steps/publisher.js';
import { presentTime } from './present.js';

export type RedeliverState = NotificationStepState & RegistrationState;

export const redeliverEndpoint = clientEndpoint<RedeliverState>({
  method: 'post',
  path: '/notifications/{id}/redeliver',
  operationId: 'redeliverNotification',
  tag: 'Notifications',
  summary: 'Send a notification again',
  description:
    'Sends it again now, under the same id: a waiting one is due immediately, an ended one is owed again. If its asset is owed by a newer one, that one is due instead, and the answer names it. One call in 5 s for each client, bursts of 5.',
  after503: 'it may be due or under way; a repeat may send it once more, under the same id.',
  inPath: z.object({ id: notificationIdText.describe('The notification.') }),
  answers: {
    202: {
      what: 'What is due now.',
      schema: z.object({ notification_id: notificationIdText }),
    },
  },
  codes: ['unknown_notification', 'not_registered', 'too_many_requests'],
  steps: (deps) => [
    requireOwnNotification(deps.db),
    requireRegistration(deps.db),
    limitSends(deps.db),
    auditCall<NotificationStepState>(deps, {
      what: 'notification redeliver',
      about: ({ notification }) => ({ notification_id: notification.notificationId }),
    }),
    async (ctx) => {
      const { clientToken, notificationId } = ctx.state.notification;
      const dueId = await deps.db.durably((db) => redeliver(db, clientToken, notificationId)).safe;
      void deps.catchUps.wake(clientToken, 0);
      ctx.status = 202;
      ctx.body = { notification_id: dueId ?? notificationId };
    },
  ],
});

export type ResumeState = PublisherState & RegistrationState;

export const resumeEndpointEndpoint = clientEndpoint<ResumeState>({
  method: 'post',
  path: '/push_notifications/resume',
  operationId: 'resumePushNotifications',
  tag: 'Endpoint',
  summary: 'Resume a suspended or failing endpoint',
  description:
    'Probes the endpoint now; once it answers 2xx, all owed assets drain. One call in 5 s for each client, bursts of 5.',
  after503: 'repeat it: resuming an endpoint twice does no harm.',
  answers: { 202: { what: 'Under way.', schema: z.object({ state: endpointState, owed: whole(12) }) } },
  codes: ['not_registered', 'too_many_requests'],
  steps: (deps) => [
    requireRegistration(deps.db),
    limitSends(deps.db),
    auditCall(deps, { what: 'resume' }),
    async (ctx) => {
      const { clientToken } = ctx.state.client;
      const before = await getEndpoint(deps.db, clientToken);
      await deps.db.durably((db) => resumeEndpoint(db, clientToken, 'publisher')).safe;
      const { state, owed } = await getEndpoint(deps.db, clientToken);
      tellStateChange(deps, { clientToken, from: before.state, to: state, why: 'resumed by the publisher' });
      void deps.catchUps.wake(clientToken, 0);
      ctx.status = 202;
      ctx.body = { state, owed };
    },
  ],
});

export interface RecoverState extends PublisherState {
  json: unknown;
  range: { since: number; until: number; dryRun: boolean };
}

interface RangeCall extends Pick<Description, 'path' | 'operationId' | 'summary' | 'after503'> {
  description: string;
  ended: 'Failed' | 'Delivered';
  /** For the audit. */
  what: string;
  answers: string;
  schema: z.ZodType;
  run(db: Db, client: ClientToken, range: RecoverState['range']): Promise<{ count: number }>;
}

/** Declares a call that makes what ended in a span of time owed again. */
function rangeEndpoint({ ended, what, answers, schema, run, description, ...of }: RangeCall) {
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
  return clientEndpoint<RecoverState>({
    ...of,
    method: 'post',
    tag: 'Notifications',
    description: `${description} One call in 5 s for each client, bursts of 5; with \`dry_run\` it counts as a read only.`,
    body: { schema: range, examples, atMostBytes: 16 * 1024 },
    answers: { 200: { what: answers, schema } },
    codes: [],
    rate: 'records',
    steps: (deps) => [
      (ctx, next) => {
        const given = checked(range, ctx.state.json);
        const { until = Number.MAX_SAFE_INTEGER, dry_run: dryRun = false } = given;
        ctx.state.range = { since: given.since, until, dryRun };
        return next();
      },
      limitUnlessDry(deps.db),
      limitAccount(deps, 'records'),
      auditCall<RecoverState>(deps, { what, about: aboutRange }),
      async (ctx) => {
        const { client, range: asked } = ctx.state;
        const found = await deps.db.durably((db) => run(db, client.clientToken, asked)).safe;
        if (found.count > 0 && !asked.dryRun) void deps.catchUps.wake(client.clientToken, 0);
        ctx.body = found;
      },
    ],
  });
}

/** A dry run sends nothing: it counts as a read. */
const limitUnlessDry = (db: Db): Step<RecoverState> => {
  const limit = limitSends(db);
  return (ctx, next) => (ctx.state.range.dryRun ? next() : limit(ctx, next));
};

/** Returns the span of time of a call, for the audit; nothing for a dry run. */
const aboutRange = ({ range: { since, until, dryRun } }: RecoverState) =>
  dryRun
    ? undefined
    : {
        since: presentTime(since),
        ...(until !== Number.MAX_SAFE_INTEGER && { until: presentTime(until) }),
      };

export const recoverEndpoint = rangeEndpoint({
  path: '/notifications/recover',
  operationId: 'recoverNotifications',
  summary: 'Recover failed notifications',
  description:
    'Makes notifications that ended as failed in a span of time owed again, unless their asset has a newer one.',
  after503: 'repeat it: notifications that are already owed are not counted again.',
  ended: 'Failed',
  what: 'notification recover',
  answers: 'The number of notifications.',
  schema: z.object({ count: whole(17) }),
  run: async (db, client, range) => ({ count: (await recoverFailed(db, client, range)).count }),
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
  answers: 'The number of assets; `listed_since` if older deliveries of that time may be missing.',
  schema: z.object({
    count: whole(17),
    listed_since: time('When the oldest kept notification was accepted.').optional(),
  }),
  async run(db, client, range) {
    const { count, listedSince } = await replayDelivered(db, client, range);
    return { count, listed_since: listedSince && presentTime(listedSince) };
  },
});
