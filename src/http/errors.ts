/**
 * The catalogue of errors: every `code` that an answer can carry, once. `/docs/errors` explains it, and the OpenAPI description
 * lists it, unless only operators get it. A new error is a new row here, and its code is named in docs/reference/calls.md.
 */
import { asMessage, type TargetRefusal, targetRefusals } from '../outgoing/target.js';

type UrlCodes = { [Reason in TargetRefusal as `url_${Reason}`]: (typeof targetRefusals)[Reason] };
const urlCodes = Object.fromEntries(
  Object.entries(targetRefusals).map(([reason, words]) => [`url_${reason}`, words]),
) as UrlCodes;

/** Only operators get the code, where the third is there. */
type Row = readonly [meaning: string, remedy: string, audience?: 'operators'];

const byStatus = {
  400: {
    invalid_request: [
      'A parameter, a header or the body is missing, empty, repeated, unknown or wrong.',
      'Correct what the message names, then send it again.',
    ],
    too_many_parameters: [
      'The query or the form has more parameters than any call takes.',
      'Send only the parameters that the call knows.',
    ],
    malformed_request: [
      'The first line, the headers or the framing are not valid HTTP/1.1.',
      'Check the client library and the proxies in between.',
    ],
    invalid_event: [
      'An event of a batch has a bad field. The code stands in the place of that event; the batch is answered 202.',
      'Correct the field that the message names and send this event again.',
    ],
    ...urlCodes,
    already_registered: [
      'The client already has a URL.',
      'Ask the operator named in the message to change it.',
    ],
    receiver_not_verified: [
      'The registration had to be verified, and the receiver did not accept a signed test, or accepted one with a wrong signature. No URL was stored.',
      'Do what the message says, then register again; `POST /push_notifications/check` shows each answer.',
    ],
    unsupported_grant_type: ['The `grant_type` is not `none`.', 'Send `grant_type=none`.'],
    invalid_scope: [
      'The account does not have all of the scopes asked for.',
      'Ask for fewer, or have the operator grant them.',
    ],
  },
  401: {
    invalid_client: [
      'The `client_id` is unknown, the `client_secret` is wrong, or the account is disabled.',
      'Compare both with the values that the operator gave you.',
    ],
    invalid_token: [
      'The access token is missing, unknown, expired or revoked.',
      'Ask for a new token, send it as `Authorization: Bearer`, and repeat the call once.',
    ],
    invalid_client_token: [
      'At the registration: the client token is unknown, or belongs to another account.',
      'Compare it with `GET /clients`.',
    ],
  },
  403: {
    insufficient_scope: [
      'The access token does not have the scope that the call needs.',
      'Ask for a token with the scope that the message names.',
    ],
    insufficient_role: [
      'To operators: the role of the token or of the person does not allow the operation.',
      'Have somebody with the role that the message names do it, or give you that role.',
      'operators',
    ],
  },
  404: {
    not_found: [
      'There is nothing at this address. Paths are written in lower case, without a slash at their end; a `/` in an id is `%2F`.',
      'Compare the path with `/docs`.',
    ],
    unknown_account: [
      'To operators: there is no such account.',
      'Compare the id with the list of accounts.',
      'operators',
    ],
    unknown_client: [
      'The client token is unknown, or belongs to another account. In a batch the code stands in the place of the event.',
      'Compare it with `GET /clients`, or have the operator create the client.',
    ],
    not_registered: ['The client has no URL.', 'Register one.'],
    no_url_request: [
      'The client has not asked for another URL lately.',
      'Ask with `PUT /push_notifications/url_request`.',
    ],
    no_notices_url: ['The account has no URL for notices.', 'Set one with `PUT /notices`.'],
    unknown_notification: [
      'The client has no such notification, or its record is no longer kept.',
      'Compare the id with `GET /notifications`. A failed one without a record is sent by `recover` alone.',
    ],
    unknown_asset: [
      'The service has no record of this asset for this client.',
      'Compare the `platform_id` with the one that the platform publishes.',
    ],
    unknown_event: [
      'No kept notification of the client names the event: the newest 10,000 are kept, each for 14 days after its end, and those that wait or have failed.',
      'If the event made none, `GET /assets` says why, for 14 days or until a later event of its asset.',
    ],
  },
  405: {
    method_not_allowed: ['The path has no such method.', 'Use one of the methods in the header `Allow`.'],
  },
  408: {
    request_timeout: [
      'The headers took more than 10 s, or the whole request more than 30 s.',
      'Send it again on a new connection.',
    ],
  },
  409: {
    refused: [
      'To operators: the operation was understood, and is not possible now; the message says why.',
      'Do what the message says.',
      'operators',
    ],
  },
  410: {
    cursor_expired: [
      'Updates after this place of the feed are no longer there: the store has lost some, or the place is older than `complete_since`.',
      'Read the feed again without `cursor`.',
    ],
  },
  413: {
    body_too_long: [
      'The body is longer than the call accepts, compressed or decompressed.',
      'Send less in one call: events in smaller batches.',
    ],
  },
  415: {
    unsupported_media_type: [
      'The call does not accept the content type, the charset or the content encoding.',
      'Send the type that the message names, in UTF-8, uncompressed or as gzip, deflate or br.',
    ],
  },
  417: {
    expectation_failed: [
      'The header `Expect` asks for something other than `100-continue`.',
      'Leave the header out.',
    ],
  },
  429: {
    too_many_requests: [
      'A limit on calls is reached.',
      'Wait as many seconds as `Retry-After` says; `RateLimit-Policy` names the limit.',
    ],
  },
  431: {
    headers_too_long: ['The path, the query and the headers have more than 32 KiB.', 'Send shorter ones.'],
  },
  500: {
    server_error: [
      'The service has a bug.',
      'Send the request again later; tell the operator the `request_id`.',
    ],
  },
  503: {
    resolver_unavailable: [
      'The name in the URL could not be looked up in time.',
      'Send the request again after `Retry-After`. If the message names its name servers, have them repaired.',
    ],
    temporarily_unavailable: [
      'The service cannot answer now. The call may or may not have taken effect.',
      'Wait as `Retry-After` says. A call that only reads can be repeated; the description of every other call says what a repeat does.',
    ],
  },
} as const satisfies Record<number, Record<string, Row>>;

type ByStatus = typeof byStatus;
export type ErrorCode = { [Status in keyof ByStatus]: keyof ByStatus[Status] }[keyof ByStatus];

export const errors = Object.fromEntries(
  Object.entries(byStatus).flatMap(([status, codes]) =>
    Object.entries<Row>(codes).map(([code, [meaning, remedy, audience]]) => [
      code,
      { status: Number(status), meaning, remedy, audience },
    ]),
  ),
) as Record<ErrorCode, { status: number; meaning: string; remedy: string; audience?: 'operators' }>;

export function wordsOf(code: ErrorCode): string {
  const { meaning, remedy } = errors[code];
  return asMessage([meaning, remedy]);
}

export const errorCodes = Object.keys(errors) as ErrorCode[];
/** Without those that only the operators' door answers. */
export const callersCodes = errorCodes.filter((code) => errors[code].audience === undefined);

/** RFC 6749, section 5.2, has one word for these. */
const invalidUnderOauth: readonly ErrorCode[] = [
  'too_many_parameters',
  'malformed_request',
  'method_not_allowed',
  'request_timeout',
  'body_too_long',
  'unsupported_media_type',
  'expectation_failed',
  'headers_too_long',
];

export const toOauthError = (code: ErrorCode) =>
  invalidUnderOauth.includes(code) ? 'invalid_request' : code;

/** Returns a character as a message may show it. */
export function shownCharacter(character: string): string {
  const code = character.codePointAt(0) ?? 0;
  if (code > 0x20 && code < 0x7f) return character;
  const name = unseen[character];
  return `U+${code.toString(16).toUpperCase().padStart(4, '0')}${name ? ` (${name})` : ''}`;
}

/** What comes along unseen from a file, a table or a page. */
const unseen: Record<string, string> = {
  ' ': 'blank',
  '\t': 'tab',
  '\n': 'line feed',
  '\r': 'carriage return',
  '\u00a0': 'no-break space',
  '\ufeff': 'byte order mark',
};
