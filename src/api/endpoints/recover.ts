import type { Middleware } from 'koa';
import { z } from 'zod';
import { recoverFailed } from '../../redis/notifications/notifications.js';
import { composeSteps, type Step } from '../composeSteps.js';
import type { ApiDeps } from '../deps.js';
import { limitAccount } from '../steps/accountRate.js';
import { auditCall } from '../steps/auditCall.js';
import { checkedBody } from '../steps/body/checkedBody.js';
import { readBody } from '../steps/body/readBody.js';
import { readJson } from '../steps/body/readJson.js';
import { type PublisherState, publisherSteps } from '../steps/publisher.js';
import { readTime } from '../steps/readQuery.js';
import { limitSends } from '../steps/sendLimit.js';
import { presentTime } from './presentTime.js';
import { wakeClient } from './wakeClient.js';

/** POST /notifications/recover: makes notifications owed again that ended as failed in a span of time. */
export function recoverEndpoint(deps: ApiDeps): Middleware[] {
  return composeSteps<RecoverState>(
    ...publisherSteps(deps.db),
    readBody(bodyAtMostBytes),
    readJson,
    ...recoverSteps(deps),
  );
}

/** Returns the steps that follow once the caller and the client are known and the body is read. */
export function recoverSteps(deps: ApiDeps): Step<RecoverState>[] {
  return [
    readRange,
    limitSends(deps.db),
    limitAccount(deps, 'records'),
    auditCall<RecoverState>(deps, {
      what: 'notification recover',
      about: ({ range }) => (range.dryRun ? undefined : sayRange(range)),
    }),
    recover(deps),
  ];
}

export interface RecoverState extends PublisherState {
  body: Buffer;
  json: unknown;
  range: { since: number; until: number; dryRun: boolean };
}

export const bodyAtMostBytes = 16 * 1024;

/** The schema of the body; the API's description is generated from it. */
export const recoverBody = z.strictObject({
  since: z.string(),
  until: z.string().optional(),
  dry_run: z.boolean().optional(),
});

/** Reads `{since, until?, dry_run?}`, as state.range. */
export const readRange: Step<RecoverState> = async (ctx, next) => {
  const { since, until, dry_run: dryRun = false } = checkedBody(recoverBody, ctx.state.json);
  ctx.state.range = {
    since: readTime('since', since) ?? 0,
    until: readTime('until', until) ?? Number.MAX_SAFE_INTEGER,
    dryRun,
  };
  await next();
};

/** Returns the span of time of a call, for the audit. */
export const sayRange = ({ since, until }: RecoverState['range']) => ({
  since: presentTime(since),
  ...(until !== Number.MAX_SAFE_INTEGER && { until: presentTime(until) }),
});

const recover =
  (deps: ApiDeps): Step<RecoverState> =>
  async (ctx) => {
    const { client, range } = ctx.state;
    const { count } = await recoverFailed(deps.db, client.clientToken, range);
    if (count > 0 && !range.dryRun) await wakeClient(deps, client.clientToken);
    ctx.body = { count };
  };
