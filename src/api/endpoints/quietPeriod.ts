import { z } from 'zod';
import { setClient } from '../../redis/records/clients.js';
import { clientEndpoint } from '../endpoint.js';
import { whole } from '../reference/schemas.js';
import { auditCall } from '../steps/auditCall.js';
import { limitSends } from '../steps/limits.js';

const seconds = z.object({ seconds: whole(60) });

export const setQuietPeriodEndpoint = clientEndpoint({
  method: 'put',
  path: '/push_notifications/quiet_period',
  operationId: 'setQuietPeriod',
  tag: 'Endpoint',
  summary: 'Set the quiet period',
  description:
    'The first event of an asset that is not owed makes it due after so many seconds, and later events within this time take its place: several results for one video are one notification. 0, the default, sends at once. It applies to events from now on. One call in 5 s for each client, bursts of 5, together with the calls that send something.',
  after503: 'repeat it: a repeat sets the same period.',
  body: {
    schema: z.strictObject({
      seconds: z
        .int()
        .min(0)
        .max(3600)
        .meta({ examples: [60] }),
    }),
    atMostBytes: 16 * 1024,
    examples: { 'A minute': { seconds: 60 }, None: { seconds: 0 } },
  },
  result: { what: 'The period set.', schema: seconds },
  codes: ['too_many_requests'],
  answer: async (deps, call) => {
    const { clientToken } = call.client;
    await limitSends(deps.db, clientToken);
    await auditCall(deps, call, 'quiet period set', { about: call.body });
    const { quietSeconds = 0 } = await deps.db.durably((db) =>
      setClient(db, clientToken, { quietSeconds: call.body.seconds || null }),
    ).safe;
    return { seconds: quietSeconds };
  },
});
