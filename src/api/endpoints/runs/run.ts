import type { Middleware } from 'koa';
import { runIdPattern } from '../../../ids.js';
import { progressOf } from '../../../redis/runs/progress.js';
import { getRun, sumRun } from '../../../redis/runs/runs.js';
import { ApiError } from '../../apiError.js';
import { composeSteps } from '../../composeSteps.js';
import type { ApiDeps } from '../../deps.js';
import { limitAccount } from '../../steps/accountRate.js';
import { requireToken, type TokenState } from '../../steps/bearer.js';
import { noStore } from '../../steps/publisher.js';
import { refuseUnknownParameters } from '../../steps/readQuery.js';
import { requireEnrichmentsScope } from '../enrichments.js';
import { presentRun } from './presentRun.js';

/** GET /runs/{run_id}: counts the results of an analysis run's events for the platform. */
export function runEndpoint(deps: ApiDeps): Middleware[] {
  const { db } = deps;
  return composeSteps<TokenState>(
    noStore,
    requireToken(db),
    requireEnrichmentsScope,
    limitAccount(deps, 'records'),
    async (ctx) => {
      refuseUnknownParameters(ctx, []);
      const { runId = '' } = ctx.params;
      const run = runIdPattern.test(runId) ? await getRun(db, runId) : undefined;
      if (run === undefined) throw new ApiError('unknown_run', unknown);
      const [sums, progress] = await Promise.all([sumRun(db, runId), progressOf(db, runId)]);
      ctx.body = presentRun(run, sums, progress);
    },
  );
}

const unknown = 'There is no such run: no event named it, or it is no longer kept';
