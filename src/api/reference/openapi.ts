import { components, matching, text, toJsonSchema } from '../../http/schemas.js';
import { product } from '../../product.js';
import { packedFile } from '../../web/files.js';
import { declareCall } from '../call.js';
import { calls, tags } from '../calls.js';
import { describe } from './describe.js';
import { unchanged } from './docs.js';
import { webhooks } from './webhook.js';

export const openapiCall = declareCall({
  route: 'GET /openapi.json',
  summary: 'Get this description',
  description: 'OpenAPI 3.1.',
  result: { what: 'The description.', type: 'application/json' },
  otherResults: unchanged,
  codes: ['temporarily_unavailable'],
  answer: (_, { ctx }) => file(ctx),
});

const file = packedFile('json', () => JSON.stringify(openapi));

const headers = {
  RequestId: {
    description: 'Identifies the request: your own X-Request-Id (8 to 64 of A-Z a-z 0-9 . _ -) or a new one.',
    required: true,
    schema: toJsonSchema(text('0b2f1d0e-5a4c-4c0e-9a43-1f2d6f0c7b11')),
  },
  RetryAfter: {
    description: 'The seconds to wait before you send the same call again.',
    required: true,
    schema: toJsonSchema(matching(/^[1-9][0-9]*$/, '5')),
  },
  WWWAuthenticate: {
    description:
      'RFC 6750, section 3. `Bearer` if no token was given or the client token is not valid, `error="invalid_token"` if the token is not, `error="insufficient_scope"` with the scope to ask for. `Basic` for credentials that came so; absent for those that came as fields.',
    schema: toJsonSchema(text('Bearer error="invalid_token"')),
  },
  RateLimit: {
    description:
      'The calls left and the seconds until the window ends (draft-ietf-httpapi-ratelimit-headers).',
    schema: toJsonSchema(text('"records";r=99;t=10')),
  },
  RateLimitPolicy: {
    description: 'The calls allowed in a window, and its length in seconds.',
    schema: toJsonSchema(text('"records";q=100;w=10')),
  },
};

export const openapi = {
  openapi: '3.1.0',
  info: {
    title: 'Asset update service',
    version: product.version,
    summary: 'Tells a publisher’s server when one of its assets has new segments.',
    description:
      'Get a token for your account and register the URL of your endpoint; then receive a signed notification for each asset that has new segments. Times are RFC 3339; answers have them in UTC. Give each parameter once, at most 32 of them, and send a body only where one is described. Errors have a `code` for programs; the codes are never renamed.',
    license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
  },
  servers: [{ url: '/', description: 'The service that this description comes from' }],
  tags,
  paths: describe([...calls, { ...openapiCall, operationId: 'getOpenApi', tag: 'Service' }]),
  webhooks,
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
    schemas: components(),
  },
};
