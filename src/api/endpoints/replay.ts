import type { Middleware } from 'koa';
import { replayDelivered } from '../../redis/notifications/replay.js';
import { composeSteps, type Step } from '../composeSteps.js';
import type { ApiDeps } from '../deps.js';
import { limitAccount } from '../steps/accountRate.js';
import { auditCall } from '../steps/auditCall.js';
import { readBody } from '../steps/body/readBody.js';
import { readJson } from '../steps/body/readJson.js';
import { publisherSteps } from '../steps/publisher.js';
import { limitSends } from '../steps/sendLimit.js';
import { presentTime } from './presentTime.js';
import { bodyAtMostBytes, type RecoverState, readRange, sayRange } from './recover.js';
import { wakeClient } from './wakeClient.js';

/** POST /notifications/replay: makes assets owed again that had a notification delivered in a span of time. */
export function replayEndpoint(deps: ApiDeps): Middleware[] {
  return composeSteps<RecoverState>(
    ...publisherSteps(deps.db),
    readBody(bodyAtMostBytes),
    readJson,
    ...replaySteps(deps),
  );
}

/** Returns the steps after the caller and the client are known and the body is read. */
export function replaySteps(deps: ApiDeps): Step<RecoverState>[] {
  return [
    readRange,
    limitSends(deps.db),
    limitAccount(deps, 'records'),
    auditCall<RecoverState>(deps, {
      what: 'notification replay',
      about: ({ range }) => (range.dryRun ? undefined : sayRange(range)),
    }),
    async (ctx) => {
      const { client, range } = ctx.state;
      const { count, listedSince } = await replayDelivered(deps.db, client.clientToken, range);
      if (count > 0 && !range.dryRun) await wakeClient(deps, client.clientToken);
      ctx.body = { count, ...(listedSince !== undefined && { listed_since: presentTime(listedSince) }) };
    },
  ];
}
