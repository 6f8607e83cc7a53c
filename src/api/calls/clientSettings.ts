import { z } from 'zod';
import { badParameter } from '../../http/apiError.js';
import { text } from '../../http/schemas.js';
import { setClient } from '../../redis/records/clients.js';
import { type RequestHeaders, requestHeaderNames, setRequestHeaders } from '../../redis/records/secrets.js';
import { clientCall } from '../call.js';
import { admitSend } from '../steps/auditCall.js';

const quietPeriod = z.strictObject({
  seconds: z
    .int()
    .min(0)
    .max(3600)
    .meta({ examples: [60] }),
});

export const setQuietPeriodCall = clientCall({
  route: 'PUT /push_notifications/quiet_period',
  summary: 'Set the quiet period',
  description:
    'The first event of an asset that is not owed makes it due after so many seconds, and later events within this time take its place: several results for one video are one notification. 0, the default, sends at once. It applies to events from now on. One call in 5 s for each client, bursts of 6, together with the calls that send something.',
  after503: 'repeat it: a repeat sets the same period.',
  body: { schema: quietPeriod, examples: { 'A minute': { seconds: 60 }, None: { seconds: 0 } } },
  result: { what: 'The period set.', schema: quietPeriod },
  answer: async (deps, request) => {
    const { clientToken } = request.client;
    await admitSend(deps, request, 'quiet period set', { about: request.body });
    const { quietSeconds = 0 } = await deps.db.durably((db) =>
      setClient(db, clientToken, { quiet_seconds: request.body.seconds }),
    ).safe;
    return { seconds: quietSeconds };
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
  result: { what: 'Their names.', schema: headerNames },
  answer: async ({ db }, { client }) => ({ header_names: await requestHeaderNames(db, client.clientToken) }),
});

const ownHeadersAtMost = 5;

/** Headers that the service or HTTP sets, that a proxy uses for its own hop (RFC 9110, section 7.6.1), or that name the origin. */
const reserved =
  /^(accept-encoding|connection|content-.*|date|expect|forwarded|host|http2-settings|keep-alive|proxy-.*|te|traceparent|trailer|transfer-encoding|upgrade|user-agent|via|webhook-.*|x-forwarded-.*|x-real-ip)$/;

export const isReservedHeader = (name: string): boolean => reserved.test(name.toLowerCase());

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
    'Sets up to five headers that each notification, test and check carries, such as the key of a gateway in front of the receiver. They replace all earlier ones and belong to the client: they exist before a URL does, and a change of the URL keeps them. Values are encrypted at rest and never shown. Names that the service or HTTP sets are refused. One call in 5 s for each client, bursts of 6, together with the calls that send something.',
  after503: 'repeat it: a repeat sets the same headers.',
  by: 'signingSecrets',
  body: {
    schema: body,
    atMostBytes: 32 * 1024,
    examples: {
      'Two headers': { headers: { Authorization: 'Basic Z2F0ZTprZXk', 'X-Gateway-Key': '5f2c81' } },
      'No headers': { headers: {} },
    },
  },
  result: { what: 'The names of the headers set.', schema: headerNames },
  answer: async (deps, request) => {
    const { clientToken } = request.client;
    const headers = readHeaders(request.body.headers);
    const names = Object.keys(headers).sort();
    const about = { header_names: names };
    await admitSend(deps, request, 'request headers set', { security: 'change', about });
    await deps.db.durably((db) => setRequestHeaders(db, deps.secretBox, clientToken, headers)).safe;
    return { header_names: names };
  },
});

/** Returns the headers with their names in lower case. No message contains a value. @throws ApiError 400 */
function readHeaders(given: RequestHeaders): RequestHeaders {
  const entries = Object.entries(given);
  if (entries.length > ownHeadersAtMost)
    throw badParameter(`At most ${ownHeadersAtMost} headers are accepted`);
  const found = new Map<string, string>();
  for (const [name, value] of entries) {
    if (isReservedHeader(name)) {
      throw badParameter(`The header ${name} is reserved for the service, HTTP or proxies`);
    }
    if (found.has(name.toLowerCase())) throw badParameter(`The header ${name} occurs twice`);
    found.set(name.toLowerCase(), value);
  }
  return Object.fromEntries(found);
}
