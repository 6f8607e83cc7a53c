import type { Middleware } from 'koa';
import { product } from '../../product.js';
import { composeSteps } from '../composeSteps.js';
import { pageHeaders } from '../pageHeaders.js';
import { endpointCalls } from './calls/endpoint.js';
import { noticeCalls } from './calls/notices.js';
import { notificationCalls } from './calls/notifications.js';
import { ownHeaderCalls } from './calls/ownHeaders.js';
import { publishingCalls } from './calls/publishing.js';
import { receiverCalls } from './calls/receivers.js';
import { registrationCalls } from './calls/registration.js';
import { serviceCalls } from './calls/service.js';
import { tokenCalls } from './calls/tokens.js';
import { updateCalls } from './calls/updates.js';
import { noticeWebhooks } from './noticeWebhooks.js';
import { headers, schemas } from './schemas.js';
import { webhooks } from './webhook.js';

/** GET /openapi.json: describes every call, the notification and the notices, for programs. */
export const openapiEndpoint: Middleware[] = composeSteps(pageHeaders, async (ctx) => {
  ctx.body = openapi;
});

export const openapi = {
  openapi: '3.1.0',
  info: {
    title: 'Asset update service',
    version: product.version,
    summary: 'Tells a publisher’s server when one of its assets has new segments.',
    description:
      'Get a token for your account and register the URL of your endpoint; then receive a signed notification for each asset that has new segments. Times are ISO 8601 in UTC. Give each parameter once, and at most 32 of them. Errors have a `code` for programs; the codes are never renamed.',
    license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
  },
  servers: [{ url: '/', description: 'The service that this description comes from' }],
  tags: [
    { name: 'Tokens', description: 'Exchange the credentials of an account for an access token.' },
    { name: 'Registration', description: 'The one URL of a client.' },
    { name: 'Endpoint', description: 'Clients, the state of their endpoints, signing secrets, tests.' },
    { name: 'Notifications', description: 'The notifications of a client: state, attempts, redelivery.' },
    {
      name: 'Notices',
      description:
        'Messages to an account about its endpoints that fail or recover, and its secrets that are rotated.',
    },
    { name: 'Publishing', description: 'For the platform: publish the segments that analysis found.' },
    { name: 'Service', description: 'Health checks and this description.' },
  ],
  paths: {
    ...tokenCalls,
    ...registrationCalls,
    ...endpointCalls,
    ...ownHeaderCalls,
    ...receiverCalls,
    ...updateCalls,
    ...notificationCalls,
    ...noticeCalls,
    ...publishingCalls,
    ...serviceCalls,
  },
  webhooks: { ...webhooks, ...noticeWebhooks },
  components: {
    securitySchemes: {
      bearer: {
        type: 'http',
        scheme: 'bearer',
        description:
          'An access token of POST /oauth/access_token. Ask for the scope `push_notifications`; for POST /enrichments `enrichments`; for signing secrets `signing_secrets` if the account has it.',
      },
      accessToken: {
        type: 'apiKey',
        in: 'query',
        name: 'access_token',
        description: 'The same token as a parameter, for POST /register_push_notifications only.',
      },
    },
    headers,
    schemas,
  },
};
