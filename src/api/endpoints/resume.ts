import type { Middleware } from 'koa';
import { getEndpoint, resumeEndpoint } from '../../redis/records/endpoint.js';
import { tellStateChange } from '../../tellStateChange.js';
import { composeSteps, type Step } from '../composeSteps.js';
import type { ApiDeps } from '../deps.js';
import { auditCall } from '../steps/auditCall.js';
import {
  type PublisherState,
  publisherSteps,
  type RegistrationState,
  requireRegistration,
} from '../steps/publisher.js';
import { limitSends } from '../steps/sendLimit.js';
import { wakeClient } from './wakeClient.js';

/** POST /push_notifications/resume: makes a suspended or failing endpoint be probed now, then drained. */
export function resumeEndpointEndpoint(deps: ApiDeps): Middleware[] {
  return composeSteps<ResumeState>(...publisherSteps(deps.db), ...resumeSteps(deps));
}

export type ResumeState = PublisherState & RegistrationState;

/** Returns the steps that follow once the caller and the client are known. */
export function resumeSteps(deps: ApiDeps): Step<ResumeState>[] {
  return [
    requireRegistration(deps.db),
    limitSends(deps.db),
    auditCall(deps, { what: 'resume' }),
    async (ctx) => {
      const { clientToken } = ctx.state.client;
      const before = await getEndpoint(deps.db, clientToken);
      await resumeEndpoint(deps.db, clientToken, 'publisher');
      const { state, owed } = await getEndpoint(deps.db, clientToken);
      tellStateChange(deps, { clientToken, from: before.state, to: state, why: 'resumed by the publisher' });
      await wakeClient(deps, clientToken);
      ctx.status = 202;
      ctx.body = { state, owed };
    },
  ];
}
