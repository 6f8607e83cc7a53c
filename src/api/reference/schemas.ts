/** The schemas that several calls share, and those of components/schemas. */

import { enrichmentEvent } from '../../delivery/event.js';
import { clientTokenPattern } from '../../ids.js';
import type { AttemptError } from '../../outgoing/attemptError.js';
import { notificationStates } from '../../redis/notifications/notificationStates.js';
import type { WaitingReason } from '../../redis/notifications/notifications.js';
import { decisions } from '../../redis/owed/decisions.js';
import { endpointStates } from '../../redis/records/endpointStates.js';
import { errorCodes, oauthErrorOf, statusOf } from '../errors.js';
import { defaultLimit, maxLimit } from '../steps/body/readLimit.js';
import { cursorPattern } from '../steps/notificationCursor.js';
import {
  flag,
  listOf,
  matching,
  type ObjectSchema,
  object,
  oneOf,
  ref,
  type Schema,
  schemaOf,
  text,
  time,
  whole,
} from './schema.js';

export const clientTokenText = matching(clientTokenPattern, 'SITE0042');
export const platformIdText = text('vid-9', { minLength: 1 });
export const notificationIdText = text('msg_3q2-7wABAgMEBQYHCAkKCw', { minLength: 1 });
export const urlText = text('https://cms.example.com/hooks/assets', { minLength: 1, maxLength: 2048 });
export const secretText = text('whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw');
export const cursorText = text('a.1769860800000.msg_3q2-7wABAgMEBQYHCAkKCw', { pattern: cursorPattern });
export const limitNumber = whole(defaultLimit, { minimum: 1, maximum: maxLimit, default: defaultLimit });
export const endpointState = oneOf(...endpointStates);
export const notificationState = oneOf(...notificationStates);
export const decision = oneOf(...decisions);

const attemptErrors: Record<AttemptError, true> = {
  dns: true,
  connect: true,
  tls: true,
  timeout: true,
  http_status: true,
  redirect: true,
  blocked_address: true,
  protocol: true,
};
export const attemptError = oneOf(...Object.keys(attemptErrors));

const waitingReasons: Record<WaitingReason, true> = {
  due: true,
  in_flight: true,
  retry: true,
  failing: true,
  not_before: true,
  paused: true,
  suspended: true,
  no_registration: true,
};

const notificationMembers = {
  notification_id: notificationIdText,
  platform_id: platformIdText,
  event_id: text('an-7731'),
  state: notificationState,
  priority: oneOf('live', 'backfill'),
  accepted_at: time(),
  ended_at: time('When it ended; absent while it waits.'),
  next_attempt_at: time('Absent if no time is known.'),
  waiting_reason: { ...oneOf(...Object.keys(waitingReasons)), description: 'Why it waits.' },
  superseded_by: text('msg_AAECAwQFBgcICQoLDA0ODw', { description: 'The newer notification.' }),
  made_unnecessary_by: text('msg_AAECAwQFBgcICQoLDA0ODw', {
    description: 'The notification that brought the same segments first.',
  }),
  reason: text('window', { description: 'Why it failed or was cancelled.' }),
};
const absentAtTimes = [
  ...['ended_at', 'next_attempt_at', 'waiting_reason', 'superseded_by', 'made_unnecessary_by', 'reason'],
];

const attempt = object(
  {
    at: time(),
    url: text('https://cms.example.com/hooks/assets', { description: 'Without its query.' }),
    milliseconds: whole(84),
    status: whole(503),
    error: attemptError,
    remote_address: text('198.51.100.7'),
    response_excerpt: text('upstream is away', { description: 'The first 1 KiB of a failed answer.' }),
  },
  ...['status', 'error', 'remote_address', 'response_excerpt'],
);

const queued = object(
  {
    event_id: text('an-7731'),
    notification: oneOf('queued'),
    notification_id: notificationIdText,
    held: {
      ...oneOf('paused', 'suspended'),
      description: 'Owed, but not sent until the endpoint is resumed.',
    },
  },
  'held',
);
const none = object({
  event_id: text('an-7731'),
  notification: oneOf('none'),
  reason: oneOf('no_new_segments', 'not_registered', 'silent'),
});

const errorCode = {
  type: 'string',
  enum: errorCodes,
  examples: errorCodes.slice(0, 1),
  description: `For a program; docs/reference/errors.md says what to do. ${errorCodes
    .map((code) => `${code}: ${statusOf(code)}`)
    .join(', ')}.`,
};

export const schemas = {
  Problem: object({
    msg: text('The access token is no longer valid', {
      description: 'For a person; its wording may change.',
    }),
    code: ref('ErrorCode'),
    request_id: text('0b2f1d0e-5a4c-4c0e-9a43-1f2d6f0c7b11', { description: 'As X-Request-Id.' }),
  }),
  OAuthProblem: {
    ...object({
      error: oneOf(...new Set(errorCodes.map(oauthErrorOf))),
      error_description: text('The client credentials are not valid'),
    }),
    description: 'As in RFC 6749, section 5.2.',
  },
  ErrorCode: errorCode,
  EnrichmentEvent: eventSchema(),
  Accepted: {
    oneOf: [queued, none],
    description: '`queued` is durable: this notification or an equal one will be delivered.',
  },
  NotAccepted: {
    ...object({ event_id: { type: ['string', 'null'] }, code: ref('ErrorCode'), msg: text('unknown') }),
    description:
      'An event of a batch that was not accepted. A batch is answered 202 nevertheless: check every item.',
  },
  Notification: object(notificationMembers, ...absentAtTimes),
  NotificationWithAttempts: object({ ...notificationMembers, attempts: listOf(attempt) }, ...absentAtTimes),
  Readiness: object({
    status: oneOf('ready', 'not ready'),
    redis: flag(true),
    temporal: flag(true, { description: 'May be false while the service is ready.' }),
  }),
} satisfies Record<string, Schema>;

/** Returns the validating schema, with a description of each member. */
function eventSchema(): ObjectSchema {
  const schema = schemaOf(enrichmentEvent) as ObjectSchema;
  const said: Record<string, Schema> = {
    event_id: {
      description: 'For tracing and safe repeats; made by the service when absent.',
      examples: ['an-7731'],
    },
    client_token: { examples: ['SITE0042'] },
    platform_id: { description: 'The asset, as its publisher names it.', examples: ['vid-9'] },
    segments: { examples: [['iab:17', 'mood:calm']] },
    priority: { default: 'live', description: '`backfill` waits behind live events.', examples: ['live'] },
    notify: {
      default: true,
      description: 'False records the segments without a notification.',
      examples: [true],
    },
  };
  const properties = Object.entries(schema.properties).map(([name, of]) => [name, { ...of, ...said[name] }]);
  return { ...schema, properties: Object.fromEntries(properties) };
}

export const headers = {
  RequestId: {
    description: 'Identifies the request: your own X-Request-Id (8 to 64 of A-Z a-z 0-9 . _ -) or a new one.',
    required: true,
    schema: text('0b2f1d0e-5a4c-4c0e-9a43-1f2d6f0c7b11'),
  },
  RetryAfter: {
    description: 'The seconds to wait before you send the same call again.',
    required: true,
    schema: text('5', { pattern: '^[1-9][0-9]*$' }),
  },
  WWWAuthenticate: {
    description:
      'RFC 6750, section 3. `Bearer` if no token was given, `error="invalid_token"` if it is not valid, `error="insufficient_scope"` with the scope to ask for. Absent if the error is not about the token.',
    schema: text('Bearer error="invalid_token"'),
  },
  RateLimit: {
    description:
      'The calls left and the seconds until the window ends (draft-ietf-httpapi-ratelimit-headers).',
    schema: text('"records";r=99;t=10'),
  },
  RateLimitPolicy: {
    description: 'The calls allowed in a window, and its length in seconds.',
    schema: text('"records";q=100;w=10'),
  },
} satisfies Record<string, Schema>;
