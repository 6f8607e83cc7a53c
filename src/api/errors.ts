/**
 * The catalogue of errors: every `code` that an answer can carry, once. The OpenAPI description lists it and
 * `/docs/errors` explains it. A new error is a new row here, and its code is named in docs/reference/calls.md.
 */

export const errors = {
  invalid_request: {
    status: 400,
    meaning: 'A parameter, a header or the body is missing, empty, repeated, unknown or wrong.',
    remedy: 'Correct what the message names, then send it again.',
  },
  too_many_parameters: {
    status: 400,
    meaning: 'The query or the form has more parameters than any call takes.',
    remedy: 'Send only the parameters that the call knows.',
  },
  malformed_request: {
    status: 400,
    meaning: 'The first line, the headers or the framing are not valid HTTP/1.1.',
    remedy: 'Check the client library and the proxies in between.',
  },
  invalid_event: {
    status: 400,
    meaning:
      'An event of a batch has a bad field. The code stands in the place of that event; the batch is answered 202.',
    remedy: 'Correct the field that the message names and send this event again.',
  },
  url_not_absolute: {
    status: 400,
    meaning: 'The URL is not absolute, or has a space or a backslash.',
    remedy:
      'Send the whole address from `https://` on, percent-encoded once: a `+` as `%2B`, a `&` as `%26`.',
  },
  url_scheme: {
    status: 400,
    meaning: 'The URL is not `https://`.',
    remedy: 'Send the `https://` address of the same endpoint.',
  },
  url_too_long: {
    status: 400,
    meaning: 'The URL has more than 2,048 bytes, percent-encoded.',
    remedy: 'Send a shorter one.',
  },
  url_credentials: {
    status: 400,
    meaning: 'The URL has a user name or a password.',
    remedy: 'Leave `user:password@` out; verify the signature that each notification carries instead.',
  },
  url_fragment: {
    status: 400,
    meaning: 'The URL has a fragment.',
    remedy: 'Leave out the `#` and everything after it: HTTP requests do not carry it.',
  },
  url_unknown_host: {
    status: 400,
    meaning: 'The host name of the URL does not exist.',
    remedy: 'Correct the name, or wait until it is in DNS.',
  },
  url_not_public: {
    status: 400,
    meaning: 'The host of the URL has an address that is not public.',
    remedy: 'Send a URL that the internet can reach.',
  },
  url_own_address: {
    status: 400,
    meaning: 'The URL leads to this service itself.',
    remedy: 'Send the URL of your own endpoint.',
  },
  already_registered: {
    status: 400,
    meaning: 'The client already has a URL.',
    remedy: 'Ask the operator named in the message to change it.',
  },
  unsupported_grant_type: {
    status: 400,
    meaning: 'The `grant_type` is not `none`.',
    remedy: 'Send `grant_type=none`.',
  },
  invalid_scope: {
    status: 400,
    meaning: 'The account does not have all of the scopes asked for.',
    remedy: 'Ask for fewer, or have the operator grant them.',
  },
  invalid_client: {
    status: 401,
    meaning: 'The `client_id` is unknown, the `client_secret` is wrong, or the account is disabled.',
    remedy: 'Compare both with the values that the operator gave you.',
  },
  invalid_token: {
    status: 401,
    meaning: 'The access token is missing, unknown, expired or revoked.',
    remedy: 'Ask for a new token, send it as `Authorization: Bearer`, and repeat the call once.',
  },
  invalid_client_token: {
    status: 401,
    meaning: 'At the registration: the client token is unknown, or belongs to another account.',
    remedy: 'Compare it with `GET /clients`.',
  },
  insufficient_scope: {
    status: 403,
    meaning: 'The access token does not have the scope that the call needs.',
    remedy: 'Ask for a token with the scope that the message names.',
  },
  not_found: {
    status: 404,
    meaning: 'There is nothing at this address. Paths are written in lower case.',
    remedy: 'Compare the path with `/docs`.',
  },
  unknown_client: {
    status: 404,
    meaning:
      'The client token is unknown, or belongs to another account. In a batch the code stands in the place of the event.',
    remedy: 'Compare it with `GET /clients`, or have the operator create the client.',
  },
  not_registered: {
    status: 404,
    meaning: 'The client has no URL.',
    remedy: 'Register one.',
  },
  no_notices_url: {
    status: 404,
    meaning: 'The account has no URL for notices.',
    remedy: 'Set one with `PUT /notices`.',
  },
  unknown_notification: {
    status: 404,
    meaning: 'The client has no such notification, or it is no longer kept.',
    remedy: 'Compare the id with `GET /notifications`.',
  },
  unknown_asset: {
    status: 404,
    meaning: 'The service has no record of this asset for this client.',
    remedy: 'Compare the `platform_id` with the one that the platform publishes.',
  },
  unknown_event: {
    status: 404,
    meaning:
      'No kept notification of the client names the event: it made none, or its notification is no longer kept.',
    remedy: 'Ask for the asset of the event: `GET /assets/{platform_id}` says why its last event made none.',
  },
  method_not_allowed: {
    status: 405,
    meaning: 'The path has no such method.',
    remedy: 'Use one of the methods in the header `Allow`.',
  },
  request_timeout: {
    status: 408,
    meaning: 'The headers took more than 10 s, or the whole request more than 30 s.',
    remedy: 'Send it again on a new connection.',
  },
  cursor_expired: {
    status: 410,
    meaning:
      'Updates after this place of the feed are no longer kept: 10,000 followed, or the store has lost some.',
    remedy: 'Read the feed again without `cursor`, and ask the platform about the assets that are not in it.',
  },
  body_too_long: {
    status: 413,
    meaning: 'The body is longer than the call accepts, compressed or decompressed.',
    remedy: 'Send less in one call: events in smaller batches.',
  },
  unsupported_media_type: {
    status: 415,
    meaning: 'The call does not accept the content type, the charset or the content encoding.',
    remedy: 'Send the type that the message names, in UTF-8, uncompressed or as gzip, deflate or br.',
  },
  expectation_failed: {
    status: 417,
    meaning: 'The header `Expect` asks for something other than `100-continue`.',
    remedy: 'Leave the header out.',
  },
  too_many_requests: {
    status: 429,
    meaning: 'A limit on calls is reached.',
    remedy: 'Wait as many seconds as `Retry-After` says; `RateLimit-Policy` names the limit.',
  },
  headers_too_long: {
    status: 431,
    meaning: 'The path, the query and the headers have more than 32 KiB.',
    remedy: 'Send shorter ones.',
  },
  server_error: {
    status: 500,
    meaning: 'The service has a bug.',
    remedy: 'Send the request again later; tell the operator the `request_id`.',
  },
  resolver_unavailable: {
    status: 503,
    meaning: 'The name in the URL could not be looked up in time.',
    remedy: 'Send the request again after `Retry-After`.',
  },
  temporarily_unavailable: {
    status: 503,
    meaning: 'The service cannot answer now. The call may or may not have taken effect.',
    remedy:
      'Wait as `Retry-After` says. A call that only reads can be repeated; the description of every other call says what a repeat does.',
  },
} as const satisfies Record<string, { status: number; meaning: string; remedy: string }>;

export type ErrorCode = keyof typeof errors;

export const errorCodes = Object.keys(errors) as ErrorCode[];

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

export const toOauthError = (code: ErrorCode): string =>
  invalidUnderOauth.includes(code) ? 'invalid_request' : code;
