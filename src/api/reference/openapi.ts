import type { Middleware } from 'koa';
import { endpoint } from '../endpoint.js';
import { errorCodes, oauthErrorOf, statusOf } from '../errors.js';
import { pageHeaders } from '../pageHeaders.js';
import { cursorPattern } from '../steps/notificationCursor.js';
import { newerCalls } from './newerCalls.js';

/** GET /openapi.json */
export const openapiEndpoint: Middleware[] = endpoint(pageHeaders, async (ctx) => {
  ctx.body = openapi;
});

type Schema = Record<string, unknown>;

const text: Schema = { type: 'string' };
const someText: Schema = { type: 'string', minLength: 1 };
const clientTokenText: Schema = { type: 'string', pattern: '^[A-Za-z0-9_-]{1,64}$' };
/** At most so many characters, none of them a control character. */
const plainText = (maxLength: number): Schema => ({
  type: 'string',
  minLength: 1,
  maxLength,
  pattern: '^[^\\u0000-\\u001f\\u007f-\\u009f]*$',
});
const number: Schema = { type: 'integer' };
const time: Schema = { type: 'string', format: 'date-time' };
const optionalTime: Schema = { type: ['string', 'null'], format: 'date-time' };
const oneOf = (...values: string[]): Schema => ({ type: 'string', enum: values });
const object = (properties: Record<string, Schema>, ...optional: string[]): Schema => ({
  type: 'object',
  properties,
  required: Object.keys(properties).filter((name) => !optional.includes(name)),
});
/** The same, and a member that is not named is a mistake. */
const closedObject = (properties: Record<string, Schema>, ...optional: string[]): Schema => ({
  ...object(properties, ...optional),
  additionalProperties: false,
});
const listOf = (items: Schema): Schema => ({ type: 'array', items });
const ref = (name: string): Schema => ({ $ref: `#/components/schemas/${name}` });

const answer = (description: string, schema?: Schema): Schema => ({
  description,
  ...(schema && { content: { 'application/json': { schema } } }),
});
const problem = (description: string): Schema => answer(description, ref('Problem'));
const oauthProblem = (description: string): Schema => answer(description, ref('OAuthProblem'));

const query = (name: string, description: string, schema: Schema = text, required = false): Schema => ({
  name,
  in: 'query',
  description,
  required,
  schema,
});
const inPath = (name: string): Schema => ({ name, in: 'path', required: true, schema: someText });
const urlText: Schema = { type: 'string', minLength: 1, maxLength: 2048 };
const clientToken = query('client_token', 'The client, a child of the account', clientTokenText, true);

/** What any call can be answered. */
const anyCall = {
  '408': problem('The request took too long'),
  '417': problem('The header Expect asks for something other than 100-continue'),
  '431': problem('The path, the query and the headers are over 32 KiB'),
};
const away = {
  '503': problem(
    'Redis is away or full, or Temporal is away where it is needed: try again after Retry-After',
  ),
};
const limited = { '429': problem('Too many calls that send something: one in 5 s, bursts of 5') };
const pageLimit: Schema = { type: 'integer', minimum: 1, maximum: 200, default: 50 };
/** Of one account; the answer's fields RateLimit and RateLimit-Policy say how many are left. */
const rated = (calls: string) => ({
  '429': problem(`Too many calls of this account that ${calls}: try again after Retry-After`),
});
const withoutScope = {
  '403': problem('The account has the scope signing_secrets, and the token was minted without it'),
};
const publisherProblems = {
  '400': problem('A parameter is missing, empty, repeated, unknown or wrong'),
  '401': problem('The access token is no longer valid, or the client token is not valid for this account'),
  ...anyCall,
  ...away,
};
const bearer = [{ bearer: [] }];

function publisherCall(summary: string, ok: Schema, more: Record<string, unknown> = {}): Schema {
  const {
    parameters = [],
    responses = {},
    status = '200',
    ...rest
  } = more as {
    parameters?: Schema[];
    responses?: Record<string, Schema>;
    status?: string;
  };
  return {
    summary,
    security: bearer,
    parameters: [clientToken, ...parameters],
    responses: { [status]: ok, ...publisherProblems, ...responses },
    ...rest,
  };
}

const state = oneOf('active', 'failing', 'paused', 'suspended');
const notificationState = oneOf('waiting', 'delivered', 'superseded', 'not_needed', 'failed', 'cancelled');
const attemptError = oneOf(
  ...['dns', 'connect', 'tls', 'timeout', 'http_status', 'redirect', 'blocked_address', 'protocol'],
);
const notificationMembers = {
  notification_id: text,
  platform_id: text,
  event_id: text,
  state: notificationState,
  priority: oneOf('live', 'backfill'),
  accepted_at: time,
  ended_at: time,
  next_attempt_at: time,
  waiting_reason: oneOf(
    ...['due', 'in_flight', 'retry', 'failing', 'not_before', 'paused', 'suspended', 'no_registration'],
  ),
  superseded_by: text,
  made_unnecessary_by: text,
  reason: text,
};
const notificationOptional = [
  'ended_at',
  'next_attempt_at',
  'waiting_reason',
  'superseded_by',
  'made_unnecessary_by',
  'reason',
];
const cursorText: Schema = { type: 'string', pattern: cursorPattern };
const tokenForm = object({
  grant_type: oneOf('none'),
  client_id: someText,
  client_secret: someText,
  scope: someText,
});

export const openapi = {
  openapi: '3.1.0',
  info: {
    title: 'Asset update service',
    version: '0.1.0',
    description:
      'Tokens, the registration of a webhook, the publishing of enrichment events, and what became of each notification.',
  },
  paths: {
    '/oauth/access_token': {
      post: {
        summary: 'A token for an account’s credentials',
        requestBody: {
          required: true,
          content: {
            'application/x-www-form-urlencoded': { schema: tokenForm },
            'multipart/form-data': { schema: tokenForm },
          },
        },
        responses: {
          '200': answer(
            'The token',
            object({ access_token: text, token_type: oneOf('Bearer'), expires_in: number, scope: text }),
          ),
          '400': oauthProblem('invalid_request, unsupported_grant_type or invalid_scope'),
          '401': oauthProblem('invalid_client'),
          '413': oauthProblem('The body is over 16 KiB'),
          '415': oauthProblem('Another content type or charset'),
          '408': oauthProblem('The request took too long'),
          '417': oauthProblem('The header Expect asks for something other than 100-continue'),
          '431': anyCall['431'],
          '429': oauthProblem('Too many requests or failures: try again after Retry-After'),
          '503': oauthProblem('Redis is away: try again after Retry-After'),
        },
      },
    },
    '/register_push_notifications': {
      post: {
        summary: 'Registers the one URL of a client',
        security: [{ bearer: [] }, { accessToken: [] }],
        parameters: [clientToken, query('url', 'An absolute https URL', urlText, true)],
        responses: {
          '200': answer('Registered', object({ success: { const: true }, url: text })),
          '400': problem('A wrong parameter, a URL that is not allowed, or a URL is already registered'),
          '401': publisherProblems['401'],
          ...rated('look a host name up'),
          ...anyCall,
          '503': problem('Unknown whether it was registered: repeat the same call after Retry-After'),
        },
      },
    },
    '/enrichments': {
      post: {
        summary: 'Publishes one enrichment event, or 1 to 500 of them (scope enrichments)',
        security: bearer,
        requestBody: {
          required: true,
          content: {
            'application/json': {
              schema: {
                oneOf: [
                  ref('EnrichmentEvent'),
                  closedObject({
                    events: { ...listOf(ref('EnrichmentEvent')), minItems: 1, maxItems: 500 },
                  }),
                ],
              },
            },
          },
        },
        responses: {
          '202': answer('Accepted; of a batch look at every item: some may not have been taken', {
            oneOf: [
              ref('Accepted'),
              object({ results: listOf({ oneOf: [ref('Accepted'), ref('NotAccepted')] }) }),
            ],
          }),
          '400': problem('Malformed JSON, a bad field (its path is named), or more than 500 events'),
          '401': problem('The access token is missing or no longer valid'),
          '403': problem('The token does not have the scope enrichments'),
          '404': problem('unknown_client'),
          '413': problem('The body is over 1 MiB'),
          '415': problem('The body is not application/json'),
          ...anyCall,
          '503': problem('Unknown whether it was taken: sending it again is always safe'),
        },
      },
    },
    '/clients': {
      get: {
        summary: 'The account’s clients, by client token',
        security: bearer,
        parameters: [
          query('cursor', 'next_cursor of the page before', clientTokenText),
          query('limit', 'At most so many', pageLimit),
        ],
        responses: {
          '200': answer(
            'One page; there are more while it has next_cursor',
            object(
              {
                clients: listOf(
                  object(
                    {
                      client_token: text,
                      name: text,
                      state: oneOf('not_registered', 'active', 'failing', 'paused', 'suspended'),
                      url: text,
                      owed: number,
                    },
                    'url',
                  ),
                ),
                next_cursor: clientTokenText,
              },
              'next_cursor',
            ),
          ),
          '400': problem('A parameter is unknown or wrong, or the access token is given in two ways'),
          '401': problem('The access token is no longer valid'),
          ...rated('read many records'),
          ...anyCall,
          ...away,
        },
      },
    },
    '/console_sessions': {
      post: {
        summary: 'A link that opens the account’s console in a browser, once, within 15 minutes',
        security: bearer,
        parameters: [
          query('access', 'What the session may do', { ...oneOf('full', 'read'), default: 'full' }),
        ],
        responses: {
          '200': answer('The link', object({ url: text, expires_at: time })),
          '400': problem('A parameter is unknown or wrong, or the access token is given in two ways'),
          '401': problem('The access token is no longer valid'),
          ...rated('open the console'),
          ...anyCall,
          ...away,
        },
      },
    },
    '/push_notifications': {
      get: publisherCall(
        'The registration and the health of its endpoint',
        answer(
          'The registration',
          object({
            url: text,
            state,
            state_since: optionalTime,
            state_reason: { type: ['string', 'null'] },
            registered_at: time,
            owed: number,
            last_success_at: optionalTime,
            last_failure_at: optionalTime,
            last_error: { type: ['string', 'null'] },
            next_attempt_at: optionalTime,
          }),
        ),
        { responses: { '404': problem('No url is registered') } },
      ),
    },
    '/push_notifications/signing_secret': {
      get: publisherCall('The client’s signing secret', answer('It', object({ signing_secret: text })), {
        responses: withoutScope,
      }),
      post: publisherCall(
        'A new signing secret; previous ones sign along for 24 h each, ten of them at most',
        answer('It', object({ signing_secret: text, previous_valid_until: optionalTime })),
        {
          responses: {
            ...withoutScope,
            '429': problem('Ten previous ones sign along: try again after Retry-After'),
          },
        },
      ),
    },
    '/push_notifications/test': {
      post: publisherCall(
        'Sends one test notification now, once',
        answer(
          'How it went',
          object(
            {
              status: number,
              milliseconds: number,
              error: attemptError,
              request: object({ headers: { type: 'object', additionalProperties: text }, body: text }),
            },
            'status',
            'error',
          ),
        ),
        { parameters: [query('url', 'Where to, before a url is registered', urlText)], responses: limited },
      ),
    },
    '/push_notifications/resume': {
      post: publisherCall(
        'A suspended or failing endpoint is probed now, then drained',
        answer('Under way', object({ state, owed: number })),
        { status: '202', responses: { '404': problem('No url is registered'), ...limited } },
      ),
    },
    '/notifications': {
      get: publisherCall(
        'Notifications, newest first',
        answer(
          'One page, by acceptance; with state=waiting and no platform_id, by the time since which the asset is owed. There may be more while it has next_cursor, also where it is short or empty',
          object({ notifications: listOf(ref('Notification')), next_cursor: cursorText }, 'next_cursor'),
        ),
        {
          parameters: [
            query('state', 'Only these', notificationState),
            query('platform_id', 'Only of this asset', someText),
            query('since', 'Accepted at this time or later', time),
            query('until', 'Accepted at this time or earlier', time),
            query(
              'cursor',
              'next_cursor of the page before, with the same state and platform_id',
              cursorText,
            ),
            query('limit', 'At most so many', pageLimit),
          ],
          responses: rated('read many records'),
        },
      ),
    },
    '/notifications/{id}': {
      get: publisherCall('One notification and its attempts', answer('It', ref('NotificationWithAttempts')), {
        parameters: [inPath('id')],
        responses: { '404': problem('unknown_notification') },
      }),
    },
    '/notifications/{id}/redeliver': {
      post: publisherCall(
        'Sends it again now, with the same id',
        answer('Under way', object({ notification_id: text, redelivery: oneOf('due', 'started') })),
        {
          status: '202',
          parameters: [inPath('id')],
          responses: { '404': problem('unknown_notification or not_registered'), ...limited },
        },
      ),
    },
    '/notifications/recover': {
      post: publisherCall(
        'What ended as failed in a time is owed again, where no newer notification of its asset followed',
        answer('How many', object({ count: number })),
        {
          requestBody: {
            required: true,
            content: {
              'application/json': {
                schema: closedObject(
                  { since: time, until: time, dry_run: { type: 'boolean' } },
                  'until',
                  'dry_run',
                ),
              },
            },
          },
          responses: { ...limited, '413': problem('The body is over 16 KiB') },
        },
      ),
    },
    '/assets/{platform_id}': {
      get: publisherCall(
        'Why something was or was not sent about an asset',
        answer(
          'What is known',
          object(
            {
              platform_id: text,
              known_segments: number,
              last_event: object({
                event_id: text,
                at: time,
                decision: oneOf('queued', 'not_needed', 'no_new_segments', 'not_registered', 'silent'),
              }),
              last_notification: ref('Notification'),
            },
            'last_event',
            'last_notification',
          ),
        ),
        { parameters: [inPath('platform_id')], responses: { '404': problem('unknown_asset') } },
      ),
    },
    ...newerCalls,
    '/healthz': {
      get: {
        summary: 'This process is alive',
        responses: { '200': answer('Alive', object({ status: text })) },
      },
    },
    '/readyz': {
      get: {
        summary: 'Redis is reachable and this process was not told to end; whether Temporal is reachable',
        responses: {
          '200': answer('Ready', ref('Readiness')),
          '503': answer('Not ready', ref('Readiness')),
        },
      },
    },
    '/openapi.json': { get: { summary: 'This description', responses: { '200': answer('It') } } },
    '/docs': {
      get: { summary: 'This description as a page', responses: { '200': { description: 'A page' } } },
    },
  },
  components: {
    securitySchemes: {
      bearer: { type: 'http', scheme: 'bearer' },
      accessToken: { type: 'apiKey', in: 'query', name: 'access_token' },
    },
    schemas: {
      Problem: object({ msg: text, code: ref('ErrorCode'), request_id: text }),
      OAuthProblem: object({
        error: oneOf(...new Set(errorCodes.map(oauthErrorOf))),
        error_description: text,
      }),
      ErrorCode: {
        type: 'string',
        enum: errorCodes,
        description: `For a program; docs/reference/errors.md says what to do. ${errorCodes
          .map((code) => `${code}: ${statusOf(code)}`)
          .join(', ')}.`,
      },
      EnrichmentEvent: closedObject(
        {
          event_id: { type: 'string', pattern: '^[A-Za-z0-9._:-]{1,128}$' },
          client_token: clientTokenText,
          platform_id: plainText(256),
          segments: { type: 'array', maxItems: 200, items: plainText(128) },
          priority: { ...oneOf('live', 'backfill'), default: 'live' },
          notify: { type: 'boolean', default: true },
        },
        'event_id',
        'priority',
        'notify',
      ),
      Accepted: {
        oneOf: [
          object(
            {
              event_id: text,
              notification: oneOf('queued'),
              notification_id: text,
              held: oneOf('paused', 'suspended'),
            },
            'held',
          ),
          object({
            event_id: text,
            notification: oneOf('none'),
            reason: oneOf('no_new_segments', 'not_registered', 'silent'),
          }),
        ],
      },
      NotAccepted: {
        ...object({ event_id: { type: ['string', 'null'] }, code: ref('ErrorCode'), msg: text }),
        description:
          'An event of a batch that was not taken. A batch is answered 202 all the same: look at every item.',
      },
      Notification: object(notificationMembers, ...notificationOptional),
      NotificationWithAttempts: object(
        {
          ...notificationMembers,
          attempts: listOf(
            object(
              {
                at: time,
                url: text,
                milliseconds: number,
                status: number,
                error: attemptError,
                remote_address: text,
                response_excerpt: text,
              },
              'status',
              'error',
              'remote_address',
              'response_excerpt',
            ),
          ),
        },
        ...notificationOptional,
      ),
      Readiness: object({
        status: oneOf('ready', 'not ready'),
        redis: { type: 'boolean' },
        temporal: { type: 'boolean' },
      }),
    },
  },
} as const;
