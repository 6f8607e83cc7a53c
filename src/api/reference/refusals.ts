/** Describes the answers other than success, from the catalogue of errors. */
import { typeOf } from '../apiError.js';
import { type ErrorCode, errors, oauthErrorOf, statusOf } from '../errors.js';
import type { Schema } from './schema.js';

type Under = 'oauth' | 'api';

/** Codes that any call may answer. */
const anyCall: readonly ErrorCode[] = [
  ...(['invalid_request', 'too_many_parameters'] as const),
  ...(['malformed_request', 'request_timeout', 'expectation_failed', 'headers_too_long'] as const),
  'server_error',
];

/** Codes of the HTTP parser, which refuses before it knows the path: never in the form of RFC 6749. */
const byParser: readonly ErrorCode[] = [
  ...(['malformed_request', 'request_timeout', 'headers_too_long', 'body_too_long'] as const),
];

/** Describes one answer for each status, with its codes, headers and an example for each code. */
export function refusals(codes: readonly ErrorCode[], under: Under = 'api') {
  const byStatus: Record<string, ErrorCode[]> = {};
  for (const code of new Set([...codes, ...anyCall])) {
    const status = statusOf(code);
    byStatus[status] = [...(byStatus[status] ?? []), code];
  }
  return Object.fromEntries(
    Object.entries(byStatus).map(([status, of]) => [status, refusal(Number(status), of, under)]),
  );
}

function refusal(status: number, codes: ErrorCode[], under: Under) {
  return {
    description: codes.map((code) => inWords(code, under)).join('\n'),
    headers: headersOf(status, codes),
    content: {
      'application/json': {
        schema: schemaOf(codes, under),
        examples: Object.fromEntries(codes.map((code) => [code, exampleOf(code, under)])),
      },
    },
  };
}

function inWords(code: ErrorCode, under: Under): string {
  const name = under === 'oauth' ? oauthErrorOf(code) : code;
  const { meaning, remedy } = errors[code];
  return `- \`${name}\`: ${meaning} ${remedy}`;
}

function headersOf(status: number, codes: ErrorCode[]): Schema {
  const isAboutToken = codes.some((code) => code === 'invalid_token' || code === 'insufficient_scope');
  return {
    'X-Request-Id': headerOf('RequestId'),
    ...(status === 429 && rateHeaders),
    ...((status === 429 || status === 503) && { 'Retry-After': headerOf('RetryAfter') }),
    ...(isAboutToken && { 'WWW-Authenticate': headerOf('WWWAuthenticate') }),
  };
}

export const headerOf = (name: string): Schema => ({ $ref: `#/components/headers/${name}` });

/** The headers that name a limit and what is left of it (docs/reference/limits.md). */
export const rateHeaders = {
  RateLimit: headerOf('RateLimit'),
  'RateLimit-Policy': headerOf('RateLimitPolicy'),
};

function schemaOf(codes: ErrorCode[], under: Under): Schema {
  const problem = narrowed('Problem', 'code', codes);
  if (under === 'api') return problem;
  const oauth = narrowed('OAuthProblem', 'error', [...new Set(codes.map(oauthErrorOf))]);
  const early = codes.filter((code) => byParser.includes(code));
  return early.length === 0 ? oauth : { anyOf: [oauth, narrowed('Problem', 'code', early)] };
}

const narrowed = (schema: string, member: string, values: string[]): Schema => ({
  allOf: [
    { $ref: `#/components/schemas/${schema}` },
    { type: 'object', properties: { [member]: { enum: values } } },
  ],
});

function exampleOf(code: ErrorCode, under: Under) {
  const { meaning } = errors[code];
  const request_id = '0b2f1d0e-5a4c-4c0e-9a43-1f2d6f0c7b11';
  const ofApi = { msg: meaning, code, type: typeOf(code), title: meaning, request_id };
  const ofOauth = { error: oauthErrorOf(code), error_description: meaning };
  return { summary: code, value: under === 'oauth' ? ofOauth : ofApi };
}
