import { answer, anyScope, call, publisherCall, query, rateHeaders, secretScope, urlCodes } from '../call.js';
import { listOf, object, oneOf, orNull, text, time, whole } from '../schema.js';
import {
  attemptError,
  clientTokenText,
  endpointState,
  limitNumber,
  secretText,
  urlText,
} from '../schemas.js';
import { exampleNotification } from '../webhook.js';

const at = '2026-01-31T12:00:00.000Z';
const url = 'https://cms.example.com/hooks/assets';
const consoleLink = 'https://notifications.example.com/console/open#dG9rZW4';
const secret = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw';

/** A registration with the state of its endpoint. */
export const registration = object({
  url: text(url),
  state: endpointState,
  state_since: orNull(time()),
  state_reason: orNull(text('registered')),
  registered_at: time(),
  owed: whole(0, { description: 'The assets that the client is owed.' }),
  last_success_at: orNull(time()),
  last_failure_at: orNull(time()),
  last_error: orNull(text('timeout')),
  next_attempt_at: orNull(time()),
});

const oneClient = object(
  {
    client_token: text('SITE0042'),
    name: text('Example Site'),
    state: oneOf('not_registered', ...(endpointState.enum as string[])),
    url: text(url),
    owed: whole(0),
  },
  'url',
);

export const endpointCalls = {
  '/clients': {
    get: call({
      operationId: 'listClients',
      tag: 'Endpoint',
      summary: 'List the clients of the account',
      description: `Lists the account’s clients by client token, page by page. Counts towards the account’s rate \`records\`. ${anyScope}`,
      security: 'token',
      parameters: [
        query('cursor', 'The next_cursor of the previous page.', clientTokenText),
        query('limit', 'At most this many.', limitNumber),
      ],
      success: {
        '200': answer(
          'One page. There are more if it has next_cursor.',
          object({ clients: listOf(oneClient), next_cursor: clientTokenText }, 'next_cursor'),
          { clients: [{ client_token: 'SITE0042', name: 'Example Site', state: 'active', url, owed: 0 }] },
          rateHeaders,
        ),
      },
      codes: [
        ...(['invalid_request', 'too_many_parameters', 'invalid_token', 'too_many_requests'] as const),
        'temporarily_unavailable',
      ],
    }),
  },
  '/console_sessions': {
    post: call({
      operationId: 'createConsoleSession',
      tag: 'Endpoint',
      summary: 'Make a link to the console',
      description: `Makes a link that opens the account’s console in a browser, once, within 15 minutes. Counts towards the account’s rate \`console\`. ${anyScope}`,
      security: 'token',
      parameters: [
        query('access', 'What the session may do.', { ...oneOf('full', 'read'), default: 'full' }),
      ],
      success: {
        '200': answer(
          'The link.',
          object({ url: text(consoleLink), expires_at: time() }),
          { url: consoleLink, expires_at: at },
          rateHeaders,
        ),
      },
      codes: [
        ...(['invalid_request', 'too_many_parameters', 'invalid_token', 'too_many_requests'] as const),
        'temporarily_unavailable',
      ],
    }),
  },
  '/push_notifications': {
    get: publisherCall({
      operationId: 'getPushNotifications',
      tag: 'Endpoint',
      summary: 'Show the registration and the state of its endpoint',
      description: anyScope,
      success: {
        '200': answer('The registration.', registration, {
          ...{
            url,
            state: 'active',
            state_since: at,
            state_reason: 'registered',
            registered_at: at,
            owed: 0,
          },
          ...{ last_success_at: at, last_failure_at: null, last_error: null, next_attempt_at: null },
        }),
      },
      codes: ['not_registered'],
    }),
  },
  '/push_notifications/signing_secret': {
    get: publisherCall({
      operationId: 'getSigningSecret',
      tag: 'Endpoint',
      summary: 'Show the signing secret',
      description: `Shows the secret that verifies a client’s notifications. It exists before a URL is registered. ${secretScope}`,
      success: {
        '200': answer('The secret.', object({ signing_secret: secretText }), { signing_secret: secret }),
      },
      codes: ['insufficient_scope'],
    }),
    post: publisherCall({
      operationId: 'rotateSigningSecret',
      tag: 'Endpoint',
      summary: 'Make a new signing secret',
      description: `Makes a new secret. Previous ones still sign for 24 h each, at most ten of them: while ten do, the answer is 429. ${secretScope}`,
      success: {
        '200': answer(
          'The new secret.',
          object({ signing_secret: secretText, previous_valid_until: orNull(time()) }),
          { signing_secret: secret, previous_valid_until: at },
        ),
      },
      codes: ['insufficient_scope', 'too_many_requests'],
    }),
  },
  '/push_notifications/test': {
    post: publisherCall({
      operationId: 'sendTestNotification',
      tag: 'Endpoint',
      summary: 'Send a test notification',
      description: `Sends \`{"event":"test","platform_id":"test"}\` now, once, to the registered URL or, before there is one, to \`url\`, and answers the result. The values of your own request headers are shown as \`***\`. One call in 5 s for each client, bursts of 5; counts towards the account’s rate \`names\`. ${anyScope}`,
      parameters: [query('url', 'Where to send it; only before a URL is registered.', urlText)],
      success: {
        '200': answer(
          'The result.',
          object(
            {
              status: whole(204),
              milliseconds: whole(84),
              error: attemptError,
              request: object({
                headers: { type: 'object', additionalProperties: text('application/json') },
                body: text('{"event":"test","platform_id":"test"}'),
              }),
            },
            ...['status', 'error'],
          ),
          { status: 204, milliseconds: 84, request: exampleNotification('test', 'test') },
          rateHeaders,
        ),
      },
      codes: [...urlCodes, 'too_many_requests'],
    }),
  },
  '/push_notifications/resume': {
    post: publisherCall({
      operationId: 'resumePushNotifications',
      tag: 'Endpoint',
      summary: 'Resume a suspended or failing endpoint',
      description: `Probes the endpoint now; once it answers 2xx, all owed assets drain. One call in 5 s for each client, bursts of 5. ${anyScope}`,
      success: {
        '202': answer('Under way.', object({ state: endpointState, owed: whole(12) }), {
          state: 'failing',
          owed: 12,
        }),
      },
      codes: ['not_registered', 'too_many_requests'],
    }),
  },
};
