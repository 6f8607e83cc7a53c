import { z } from 'zod';
import { getEndpoint, resumeEndpoint } from '../../redis/records/endpoint.js';
import { tellStateChange } from '../../tellStateChange.js';
import { clientEndpoint } from '../endpoint.js';
import { whole } from '../reference/schema.js';
import { endpointState } from '../reference/schemas.js';
import { auditCall } from '../steps/auditCall.js';
import { type PublisherState, type RegistrationState, requireRegistration } from '../steps/publisher.js';
import { limitSends } from '../steps/sendLimit.js';

export type ResumeState = PublisherState & RegistrationState;

/** Makes a suspended or failing endpoint be probed now, then drained. */
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
