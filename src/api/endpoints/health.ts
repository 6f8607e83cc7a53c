import { z } from 'zod';
import { endpoint } from '../endpoint.js';
import { flag, text } from '../reference/schemas.js';

export const healthzEndpoint = endpoint({
  method: 'get',
  path: '/healthz',
  operationId: 'getHealth',
  tag: 'Service',
  summary: 'Say whether this process is alive',
  description: 'For a supervisor that restarts processes.',
  result: { what: 'Alive.', schema: z.object({ status: text('ok') }) },
  answer: () => ({ status: 'ok' }),
});

const readiness = z.object({
  status: z.enum(['ready', 'not ready']),
  redis: flag(true),
  temporal: flag(true, 'May be false while the service is ready.'),
  reasons: z.array(text('right', 'Why Redis does not serve.')).optional(),
});

export const readyzEndpoint = endpoint({
  method: 'get',
  path: '/readyz',
  operationId: 'getReadiness',
  tag: 'Service',
  summary: 'Say whether this process can do its work',
  description: 'Ready while Redis serves and the process was not told to stop. Temporal may be unavailable.',
  result: { what: 'Ready.', schema: readiness },
  otherResults: { 503: { what: 'Not ready.', schema: readiness } },
  answer: async (deps, { ctx }) => {
    const found = await deps.readiness();
    if (found.status !== 'ready') ctx.status = 503;
    return found;
  },
});
