import { answer, call } from '../call.js';
import { object, ref, text } from '../schema.js';

const page = (description: string, type: string) => ({
  description,
  headers: { 'X-Request-Id': { $ref: '#/components/headers/RequestId' } },
  content: { [type]: {} },
});

export const serviceCalls = {
  '/healthz': {
    get: call({
      operationId: 'getHealth',
      tag: 'Service',
      summary: 'Say whether this process is alive',
      description: 'For a supervisor that restarts processes.',
      success: { '200': answer('Alive.', object({ status: text('ok') }), { status: 'ok' }) },
      codes: [],
    }),
  },
  '/readyz': {
    get: call({
      operationId: 'getReadiness',
      tag: 'Service',
      summary: 'Say whether this process can do its work',
      description:
        'Ready while Redis is reachable and the process was not told to stop. Temporal may be unavailable.',
      success: {
        '200': answer('Ready.', ref('Readiness'), { status: 'ready', redis: true, temporal: true }),
        '503': answer('Not ready.', ref('Readiness'), { status: 'not ready', redis: false, temporal: true }),
      },
      codes: [],
    }),
  },
  '/openapi.json': {
    get: call({
      operationId: 'getOpenApi',
      tag: 'Service',
      summary: 'Get this description',
      description: 'OpenAPI 3.1.',
      success: { '200': page('The description.', 'application/json') },
      codes: [],
    }),
  },
  '/docs': {
    get: call({
      operationId: 'getDocs',
      tag: 'Service',
      summary: 'Show this description as a page',
      description: 'Its files are under `/docs/`; it loads nothing from elsewhere.',
      success: { '200': page('The page.', 'text/html') },
      codes: [],
    }),
  },
};
