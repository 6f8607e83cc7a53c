/** zod schemas of what callers send and get, each with an example, and their JSON Schemas (draft 2020-12, as in OpenAPI 3.1). */
import { z } from 'zod';
import { clientTokenPattern, eventIdPattern, notificationIdPattern } from '../ids.js';
import { allDetails, allRemarks, attemptErrors } from '../outgoing/details.js';
import { notificationStates } from '../redis/owed/standing.js';
import { waitReasons } from '../redis/owed/waitReasons.js';
import { endpointStates } from '../redis/records/endpoint.js';
import { readTime } from '../times.js';
import { callersCodes, type ErrorCode, errors, shownCharacter, toOauthError } from './errors.js';

export type Schema = Record<string, unknown>;

export const text = (example: string, description?: string) =>
  z.string().meta({ examples: [example], description });

/** The description leaves the expression out: clients made from it would run it, and few languages know `\p`. */
export const fits = (pattern: RegExp) => (given: string) => pattern.test(given);

/** Why somebody makes a change: one line. */
export const reasonText = text('ticket 4711')
  .trim()
  .refine(fits(/^[^\p{Cc}\p{Cf}]{1,200}$/u), 'A reason is one line of 1 to 200 characters.');

export const integer = (example: number, description?: string) =>
  z.number().meta({ type: 'integer', examples: [example], description });

export const yesOrNo = (example: boolean, description?: string) =>
  z.boolean().meta({ examples: [example], description });

export const time = (description?: string) =>
  z.string().meta({ format: 'date-time', examples: ['2026-01-31T12:00:00.000Z'], description });

/** A time of RFC 3339 or a day in UTC that a caller sends, read to ms. */
export const givenTime = (description: string) =>
  text('2026-01-31T12:00:00.000Z', description)
    .meta({ pattern: '^[0-9]{4}-[0-9]{2}-[0-9]{2}([Tt].+)?$' })
    .transform((given, { addIssue }) => {
      const read = readTime(given);
      if (typeof read === 'number') return read;
      addIssue(read);
      return z.NEVER;
    });

/**
 * Describes a text of a set that later versions add to. Clients made from an `enum` would fail at a new value, so the known ones
 * stand in the description.
 */
export const oneOfMany = <const Value extends string>(known: readonly Value[], description = '') =>
  z.string().meta({
    examples: [known[0]],
    description: `${description} One of ${known.join(', ')}, or another of a later version.`.trim(),
    'x-known-values': known,
  }) as unknown as z.ZodType<Value>;

/** Describes a text by the pattern with which the code checks it. */
export const matching = (pattern: RegExp, example: string, description?: string) =>
  text(example, description).regex(pattern);

/** Describes an id, and says what is wrong with a text that can be none. @param marks its characters beside letters and digits */
const idText = (what: string, pattern: RegExp, marks: string, example: string) => {
  const [, prefix = '', count = ''] = /^\^(\w*)\[.*\{([\d,]+)\}\$$/.exec(pattern.source) ?? [];
  const most = prefix.length + Number(count.split(',').at(-1));
  const says = `must be ${what}${count.replace(',', ' to ')} of A-Z a-z 0-9 ${[...marks].join(' ')}`;
  return text(example).regex(pattern, {
    error: ({ input }) => {
      const [odd] = [...String(input)].filter((one) => !/[A-Za-z0-9]/.test(one) && !marks.includes(one));
      if (odd !== undefined) return `${says}: it has the character ${shownCharacter(odd)}`;
      const { length } = String(input);
      return length > most ? `${says}: it has ${length} characters` : says;
    },
  });
};

const controlCharacters = /\p{Cc}/u;
const noControl = (s: string) => !controlCharacters.test(s) && s.isWellFormed();

/** Counts code points: a character of two UTF-16 units counts once. */
export const plainText = (maxLength: number) =>
  z
    .string()
    .min(1, 'must not be empty')
    .refine((s) => s.length <= maxLength || (s.length <= 2 * maxLength && [...s].length <= maxLength), {
      message: `must not be longer than ${maxLength} characters`,
      abort: true,
    })
    .refine(noControl, 'must not have control characters or half of a surrogate pair')
    // The refinements in JSON Schema's terms, for the API's description.
    .meta({ maxLength, pattern: '^[^\\u0000-\\u001f\\u007f-\\u009f]*$' });

/** Returns the JSON Schema of a schema's input; a schema with an `id` is a reference to components/schemas. */
export function toJsonSchema(schema: z.ZodType): Schema {
  const { $schema, $defs, ...json } = converted(schema);
  return json;
}

/** Returns the JSON Schema of every schema with an `id`, by this id. @param codes which an error may have */
export function components(codes: readonly ErrorCode[] = callersCodes): Record<string, Schema> {
  const uri = (id: string) => `#/components/schemas/${id}`;
  const { schemas } = z.toJSONSchema(z.globalRegistry, { io: 'input', uri });
  const named = Object.entries(schemas).map(([id, { $schema, $id, ...json }]) => [id, opened(json)]);
  const each = codes.map((code) => `${code}: ${errors[code].status}`).join(', ');
  const description = `For a program; GET /docs/errors says what to do. ${each}.`;
  return {
    ...Object.fromEntries(named),
    ErrorCode: { type: 'string', 'x-known-values': codes, description },
  };
}

/** Returns a schema of an answer whose objects say that later versions add members, unless they are closed by declaration. */
export function opened<Json>(json: Json): Json {
  if (typeof json !== 'object' || json === null) return json;
  if (Array.isArray(json)) return json.map(opened) as Json;
  const inner = Object.fromEntries(Object.entries(json).map(([name, value]) => [name, opened(value)]));
  return ('properties' in json ? { additionalProperties: true, ...inner } : inner) as Json;
}

export function converted(schema: z.ZodType): Schema {
  const json = JSON.stringify(z.toJSONSchema(schema, { io: 'input' }));
  return JSON.parse(json.replaceAll('"#/$defs/', '"#/components/schemas/')) as Schema;
}

export const clientTokenText = idText('a client token, ', clientTokenPattern, '_-', 'SITE0042');
export const eventIdText = idText('an event id, ', eventIdPattern, '._:-', 'an-7731');
export const platformIdText = plainText(256).meta({ examples: ['vid-9'] });
export const notificationIdText = text('msg_3q2-7wABAgMEBQYHCAkKCw').min(1);
export const givenNotificationId = idText(
  'the id of a notification, msg_ and ',
  notificationIdPattern,
  '_-',
  'msg_3q2-7wABAgMEBQYHCAkKCw',
);

/** Asks whether a text that is no known id came from an empty variable. */
export const askWhetherEmpty = (given: string): string =>
  /^(undefined|null|none|nil|nan)$/i.test(given) ? `. It is the word ${given}: was a variable empty?` : '';
/** The bounds are described only: the check of a URL has a code for each mistake. */
export const urlText = text('https://cms.example.com/hooks/assets').meta({ minLength: 1, maxLength: 2048 });
export const secretText = text('whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw');
export const endpointState = z.enum(endpointStates);
export const attemptError = oneOfMany(attemptErrors);
export const attemptDetail = oneOfMany(allDetails, 'What went wrong, below the class.').meta({
  id: 'AttemptDetail',
});

export const attemptRemarks = z
  .array(oneOfMany(allRemarks, 'What it showed beside its end.').meta({ id: 'AttemptRemark' }))
  .optional();

export const reachMembers = {
  delivered_until: time(
    'Each update claimed before this time and after `registered_at` has arrived, or was replaced by one that has, or ended as failed or cancelled; null without a URL.',
  ).nullable(),
  owed_since: time('Since when the oldest asset is owed; null if none is.').nullable(),
  failed: integer(
    0,
    'The assets whose newest notification has failed; POST /notifications/recover owes them.',
  ),
  cancelled: integer(0, 'The notifications that ended as cancelled in the last 14 days.'),
  registered_at: time('Since when the URL is registered; null without one.').nullable(),
};

export const replayShown = z.object({
  since: time(),
  until: time(),
  running: yesOrNo(true, 'Whether it goes on.'),
  reached: time('It has looked at updates until then.'),
  owed_again: integer(17, 'The assets that it has made owed again so far.'),
  ended_at: time().nullable(),
});

export const registeredUrl = z.object({
  url: urlText,
  state: endpointState,
  state_since: time().nullable(),
  state_reason: text('registered').nullable(),
  ...reachMembers,
  registered_at: time(),
  owed: integer(0, 'The assets that the client is owed.'),
  replay: replayShown.nullable(),
  quiet_seconds: integer(0, 'The quiet period (PUT /push_notifications/quiet_period).'),
  last_success_at: time().nullable(),
  last_failure_at: time().nullable(),
  last_error: attemptError.nullable(),
  last_detail: attemptDetail.nullable(),
  next_attempt_at: time().nullable(),
});

export const answeredRequest = z.object({
  status: integer(204).optional(),
  milliseconds: integer(84),
  error: attemptError.optional(),
  detail: attemptDetail.optional(),
  remarks: attemptRemarks,
});

export function numberFrom(least: number, most: number, absent: number, description: string) {
  const message = `must be a whole number from ${least} to ${most}`;
  const meta = { description, default: absent, examples: [absent] };
  return z
    .preprocess(
      (given) => (/^\d{1,4}$/.test(String(given)) ? Number(given) : Number.NaN),
      z.int(message).min(least, message).max(most, message).meta(meta),
    )
    .default(absent);
}

export const limitNumber = numberFrom(1, 200, 50, 'The most entries of a page.');

export const completeSince = time(
  'From when the answer is complete: what is older may be missing; null if it is complete at any age.',
).nullable();

export const notACursor = 'is not a next_cursor of this call';

/** The members that every list has beside its entries; the cursor is opaque to callers. */
export const pageMembers = <Cursor extends z.ZodType>(cursor: Cursor) => ({
  has_more: yesOrNo(false, 'Whether more may follow now.'),
  next_cursor: cursor.describe('Where to continue: the next call’s `cursor`. Opaque.').optional(),
});

const anotherId = 'msg_AAECAwQFBgcICQoLDA0ODw';
const endReasons = ['window', 'expired', 'client_deleted', 'asset_forgotten', 'url_removed', 'dismissed'];

const notificationMembers = {
  notification_id: notificationIdText,
  platform_id: platformIdText,
  event_id: text('an-7731', 'Absent if its record was written anew by a replay.').optional(),
  state: z.enum(notificationStates),
  priority: oneOfMany(['live', 'backfill']),
  accepted_at: time(),
  ended_at: time('When it ended; absent while it waits.').optional(),
  next_attempt_at: time('Absent if no time is known.').optional(),
  waiting_reason: oneOfMany(waitReasons, 'Why it waits.').optional(),
  superseded_by: text(anotherId, 'The newer notification.').optional(),
  made_unnecessary_by: text(anotherId, 'The notification that brought the same segments first.').optional(),
  reason: oneOfMany(endReasons, 'Why it failed or was cancelled, unless by an operator.').optional(),
};
export const notification = z.object(notificationMembers).meta({ id: 'Notification' });

const attempt = z
  .object({
    at: time(),
    url: text('https://cms.example.com', 'Scheme and host of the URL.'),
    milliseconds: integer(84),
    status: integer(503).optional(),
    error: attemptError.optional(),
    detail: attemptDetail.optional(),
    remote_address: text('198.51.100.7').optional(),
    response_excerpt: text('upstream is away', '1 KiB of a failed answer, or its `Location`.').optional(),
    remarks: attemptRemarks,
  })
  .meta({
    examples: [
      {
        at: '2026-01-31T12:00:00.000Z',
        url: 'https://cms.example.com',
        milliseconds: 84,
        status: 503,
        error: 'http_status',
        remote_address: '198.51.100.7',
      },
    ],
  });
export const notificationWithAttempts = z
  .object({ ...notificationMembers, attempts: z.array(attempt) })
  .meta({ id: 'NotificationWithAttempts' });

export const errorCode = oneOfMany(callersCodes).meta({ id: 'ErrorCode' });

export const problem = z
  .object({
    msg: text('The access token is no longer valid', 'For a person; its wording may change.'),
    code: errorCode,
    type: text('/docs/errors#invalid_token', 'The code’s explanation, relative to this service (RFC 9457).'),
    title: text(errors.invalid_token.meaning, 'The code in words: the same in every answer.'),
    request_id: text('0b2f1d0e-5a4c-4c0e-9a43-1f2d6f0c7b11', 'As X-Request-Id.'),
  })
  .meta({ id: 'Problem' });
export const oauthProblem = z
  .object({
    error: oneOfMany([...new Set(callersCodes.map(toOauthError))]),
    error_description: text('The client credentials are not valid'),
  })
  .meta({ id: 'OAuthProblem', description: 'As in RFC 6749, section 5.2.' });
