import { z } from 'zod';
import type { Db } from '../../redis/connection/db.js';
import { recoverFailed } from '../../redis/notifications/notifications.js';
import { replayDelivered } from '../../redis/notifications/replay.js';
import type { Step } from '../composeSteps.js';
import type { ApiDeps } from '../deps.js';
import { clientEndpoint } from '../endpoint.js';
import { flag, givenTime, time, whole } from '../reference/schema.js';
import { limitAccount } from '../steps/accountRate.js';
import { auditCall } from '../steps/auditCall.js';
import { checkedBody } from '../steps/body/readBody.js';
import type { PublisherState } from '../steps/publisher.js';
import { limitSends } from '../steps/sendLimit.js';
import { presentTime } from './present.js';

const failedRange = rangeOf('Failed');

export const recoverEndpoint = clientEndpoint<RecoverState>({
  method: 'post',
  path: '/notifications/recover',
  operationId: 'recoverNotifications',
  tag: 'Notifications',
  summary: 'Recover failed notifications',
  description:
    'Makes notifications that ended as failed in a span of time owed again, unless their asset has a newer one. One call in 5 s for each client, bursts of 5; with `dry_run` it counts as a read only.',
  after503: 'repeat it: notifications that are already owed are not counted again.',
  body: rangeBody(failedRange),
  answers: { 200: { what: 'The number of notifications.', schema: z.object({ count: whole(17) }) } },
  codes: [],
  rate: 'records',
  steps: (deps) => [
    ...stepsBefore(deps, failedRange, 'notification recover'),
    async (ctx) => {
      const { client, range } = ctx.state;
      const { count } = await deps.db.durably((db) => recoverFailed(db, client.clientToken, range)).safe;
      if (count > 0 && !range.dryRun) void deps.catchUps.wake(client.clientToken, 0);
      ctx.body = { count };
    },
  ],
});

const deliveredRange = rangeOf('Delivered');

export const replayEndpoint = clientEndpoint<RecoverState>({
  method: 'post',
  path: '/notifications/replay',
  operationId: 'replayNotifications',
  tag: 'Notifications',
  summary: 'Replay delivered notifications',
  description:
    'Makes assets delivered in a span of time owed again, for a receiver that has lost them: each asset once, by its newest notification, as `backfill`, unless it is owed or was delivered after that time. One call in 5 s for each client, bursts of 5; with `dry_run` it counts as a read only.',
  after503:
    'repeat it with the same `until`: nothing becomes owed twice. Without `until` an asset delivered meanwhile is sent again.',
  body: rangeBody(deliveredRange),
  answers: {
    200: {
      what: 'The number of assets; `listed_since` if older deliveries of that time may be missing.',
      schema: z.object({
        count: whole(17),
        listed_since: time('When the oldest kept notification was accepted.').optional(),
      }),
    },
  },
  codes: [],
  rate: 'records',
  steps: (deps) => [
    ...stepsBefore(deps, deliveredRange, 'notification replay'),
    async (ctx) => {
      const { client, range } = ctx.state;
      const { count, listedSince } = await deps.db.durably((db) =>
        replayDelivered(db, client.clientToken, range),
      ).safe;
      if (count > 0 && !range.dryRun) void deps.catchUps.wake(client.clientToken, 0);
      ctx.body = { count, listed_since: listedSince && presentTime(listedSince) };
    },
  ],
});

export interface RecoverState extends PublisherState {
  json: unknown;
  range: { since: number; until: number; dryRun: boolean };
}

/** Returns the schema of a span of time in which notifications ended so. */
function rangeOf(ended: 'Failed' | 'Delivered') {
  return z.strictObject({
    since: givenTime(`${ended} at this time or later.`),
    until: givenTime(`${ended} at this time or earlier; default: now.`).optional(),
    dry_run: flag(true, 'Only counts; changes nothing.').optional(),
  });
}

function rangeBody(schema: ReturnType<typeof rangeOf>) {
  const since = '2026-01-30T00:00:00Z';
  const examples = {
    'Only count': { since, until: '2026-01-31T12:00:00.000Z', dry_run: true },
    'All since a time': { since },
  };
  return { schema, examples, atMostBytes: 16 * 1024 };
}

/** Reads the span of time, as state.range. */
const readRange =
  (schema: ReturnType<typeof rangeOf>): Step<RecoverState> =>
  async (ctx, next) => {
    const { since, until, dry_run: dryRun = false } = checkedBody(schema, ctx.state.json);
    ctx.state.range = { since, until: until ?? Number.MAX_SAFE_INTEGER, dryRun };
    await next();
  };

/** Reads the span of time, and limits and notes the call. */
const stepsBefore = (
  deps: ApiDeps,
  schema: ReturnType<typeof rangeOf>,
  what: string,
): Step<RecoverState>[] => [
  readRange(schema),
  limitUnlessDry(deps.db),
  limitAccount(deps, 'records'),
  auditCall(deps, { what, about: sayRange }),
];

/** A dry run sends nothing: it counts as a read. */
const limitUnlessDry = (db: Db): Step<RecoverState> => {
  const limit = limitSends(db);
  return (ctx, next) => (ctx.state.range.dryRun ? next() : limit(ctx, next));
};

/** Returns the span of time of a call, for the audit; nothing for a dry run. */
const sayRange = ({ range: { since, until, dryRun } }: RecoverState) =>
  dryRun
    ? undefined
    : {
        since: presentTime(since),
        ...(until !== Number.MAX_SAFE_INTEGER && { until: presentTime(until) }),
      };
