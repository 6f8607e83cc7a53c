import { z } from 'zod';
import { quietSecondsAtMost, setBounds } from '../../acts/clients.js';
import { ownHeadersAtMost, rotate, setHeaders, showSigningSecret } from '../../acts/secrets.js';
import { secretText, text, time } from '../../http/schemas.js';
import { requestHeaderNames } from '../../redis/records/secrets.js';
import { actorOf } from '../actor.js';
import { clientCall } from '../call.js';

const quietPeriod = z.strictObject({
  seconds: z
    .int()
    .min(0)
    .max(quietSecondsAtMost)
    .meta({ examples: [60] }),
});

export const setQuietPeriodCall = clientCall({
  route: 'PUT /push_notifications/quiet_period',
  summary: 'Set the quiet period',
  description:
    'The first event of an asset that is not owed makes it due after so many seconds, and later events within this time take its place: several results for one video are one notification. 0, the default, sends at once. It applies to events from now on. One call in 5 s for each client, bursts of 8, together with `PUT /push_notifications/headers`.',
  after503: 'repeat it: a repeat sets the same period.',
  body: { schema: quietPeriod, examples: { 'A minute': { seconds: 60 }, None: { seconds: 0 } } },
  result: { what: 'The period set.', schema: z.object(quietPeriod.shape) },
  act: setBounds,
  answer: async (deps, request) => {
    const { client, body } = request;
    const wanted = { client, quiet_seconds: body.seconds };
    const { quiet_seconds: seconds } = await setBounds(actorOf(deps, request), wanted);
    return { seconds };
  },
});

const headerNames = z.object({
  header_names: z
    .array(text('authorization', 'In lower case.'))
    .meta({ examples: [['authorization', 'x-gateway-key']] }),
});

export const getRequestHeadersCall = clientCall({
  route: 'GET /push_notifications/headers',
  summary: 'List the names of your own request headers',
  description:
    'Lists the names of the headers that requests to the client’s URL carry in addition to those of the service. Values are never shown.',
  result: {
    what: 'Their names.',
    schema: headerNames.extend({
      waiting: z
        .array(text('x-gateway-key'))
        .optional()
        .describe('Names of those that wait for a URL, which a caller who may set headers registers.'),
      left_behind: z
        .array(text('x-gateway-key'))
        .optional()
        .describe('Names of those that stayed with a former URL, which an operator has changed or removed.'),
    }),
  },
  answer: async ({ db }, { client }) => {
    const { sent, waiting, left } = await requestHeaderNames(db, client.clientToken);
    return {
      header_names: [...sent, ...waiting].sort(),
      ...(waiting.length > 0 && { waiting }),
      ...(left.length > 0 && { left_behind: left }),
    };
  },
});

const badName = 'a name begins with a letter and has at most 64 letters, digits and hyphens';

const namesAndValues = z
  .record(
    // Every proxy forwards these. (RFC 9110, section 5.6.2, allows more.)
    z
      .string()
      .max(64)
      .regex(/^[A-Za-z][A-Za-z0-9-]*$/),
    // No character that could end a line or that HTTP trims.
    z
      .string()
      .max(2_048)
      .regex(/^[!-~]([ -~]*[!-~])?$/, 'it must be visible ASCII characters, with blanks only between them'),
    { error: ({ code }) => (code === 'invalid_key' ? badName : undefined) },
  )
  .meta({
    maxProperties: ownHeadersAtMost,
    description: 'Names and values; an empty object removes all headers.',
  });

const body = z.strictObject({
  headers: z.preprocess((given, { addIssue }) => {
    // zod's records leave this name out.
    if (given instanceof Object && Object.hasOwn(given, '__proto__')) addIssue(badName);
    // PHP's empty array is both.
    return Array.isArray(given) && given.length === 0 ? {} : given;
  }, namesAndValues),
});

export const setRequestHeadersCall = clientCall({
  route: 'PUT /push_notifications/headers',
  summary: 'Set your own request headers',
  description:
    'Sets up to five headers that each notification, test and check carries, such as the key of a gateway in front of the receiver. They replace all earlier ones and belong to the registered URL: if an operator changes or removes it, they stay behind. Without a URL they wait for the one that a caller who may set headers registers. Values are encrypted at rest and never shown. Names that the service or HTTP sets are refused. One call in 5 s for each client, bursts of 8, together with `PUT /push_notifications/quiet_period`.',
  after503: 'repeat it: a repeat sets the same headers.',
  body: {
    schema: body,
    atMostBytes: 32 * 1024,
    examples: {
      'Two headers': { headers: { Authorization: 'Basic Z2F0ZTprZXk', 'X-Gateway-Key': '5f2c81' } },
      'No headers': { headers: {} },
    },
  },
  result: { what: 'The names of the headers set.', schema: headerNames },
  act: setHeaders,
});

const shownSecret = z.object({ signing_secret: secretText });

export const reading = {
  act: showSigningSecret,
  rate: 'secrets',
  result: { what: 'The secret.', schema: shownSecret },
} as const;

export const getSigningSecretCall = clientCall({
  ...reading,
  route: 'GET /push_notifications/signing_secret',
  summary: 'Show the signing secret',
  description:
    'Shows the secret that verifies a client’s notifications. It exists before a URL is registered.',
});

export const rotating = {
  act: rotate,
  description:
    'Makes a new secret. Previous ones still sign for 24 h each, at most ten of them: while ten do, the answer is 429.',
  after503: 'read the secret before you repeat the call: a repeat makes another one.',
  rate: 'secrets',
  result: {
    what: 'The new secret.',
    schema: shownSecret.extend({ previous_valid_until: time().nullable() }),
  },
} as const;

export const rotateSigningSecretCall = clientCall({
  ...rotating,
  route: 'POST /push_notifications/signing_secret',
  summary: 'Make a new signing secret',
});
