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
  answers: { 200: { what: 'Alive.', schema: z.object({ status: text('ok') }) } },
  codes: [],
  steps: () => [
    (ctx) => {
      ctx.body = { status: 'ok' };
    },
  ],
});

const readiness = z.object({
  status: z.enum(['ready', 'not ready']),
  redis: flag(true),
  temporal: flag(true, 'May be false while the service is ready.'),
});

export const readyzEndpoint = endpoint({
  method: 'get',
  path: '/readyz',
  operationId: 'getReadiness',
  tag: 'Service',
  summary: 'Say whether this process can do its work',
  description:
    'Ready while Redis is reachable and the process was not told to stop. Temporal may be unavailable.',
  answers: {
    200: { what: 'Ready.', schema: readiness },
    503: { what: 'Not ready.', schema: readiness },
  },
  codes: [],
  steps: (deps) => [
    async (ctx) => {
      const found = await deps.readiness();
      ctx.status = found.status === 'ready' ? 200 : 503;
      ctx.body = found;
    },
  ],
});
