/** Describes the answers other than success, from the catalogue of errors. */
import { type ErrorCode, errors, oauthErrorOf, statusOf } from '../errors.js';
import { exampleMessages } from './exampleMessages.js';
import { ref, type Schema } from './schema.js';

/** Codes that any call may answer. */
const anyCall: ErrorCode[] = [
  ...([
    'malformed_request',
    'request_timeout',
    'expectation_failed',
    'headers_too_long',
    'server_error',
  ] as const),
];

/** Codes of the HTTP parser, which refuses before it knows the path: never in the form of RFC 6749. */
const byParser: readonly ErrorCode[] = [
  'malformed_request',
  'request_timeout',
  'headers_too_long',
  'body_too_long',
];

/** Describes one answer for each status, with its codes, headers and an example for each code. */
export function refusals(
  codes: readonly ErrorCode[],
  under: 'oauth' | 'api' = 'api',
): Record<string, Schema> {
  const byStatus = new Map<number, ErrorCode[]>();
  for (const code of [...codes, ...anyCall]) {
    const status = statusOf(code);
    byStatus.set(status, [...(byStatus.get(status) ?? []), code]);
  }
  return Object.fromEntries(
    [...byStatus]
      .sort(([a], [b]) => a - b)
      .map(([status, of]) => [String(status), refusal(status, of, under)] as const),
  );
}

function refusal(status: number, codes: ErrorCode[], under: 'oauth' | 'api'): Schema {
  return {
    description: codes.map((code) => describe(code, under)).join('\n'),
    headers: headersOf(status, codes),
    content: {
      'application/json': {
        schema: schemaOf(codes, under),
        examples: Object.fromEntries(codes.map((code) => [code, example(code, under)])),
      },
    },
  };
}

function describe(code: ErrorCode, under: 'oauth' | 'api'): string {
  const name = under === 'oauth' ? oauthErrorOf(code) : code;
  const { meaning, remedy } = errors[code];
  return `- \`${name}\`: ${meaning} ${remedy}`;
}

function headersOf(status: number, codes: ErrorCode[]): Schema {
  const named = (name: string) => ({ $ref: `#/components/headers/${name}` });
  return {
    'X-Request-Id': named('RequestId'),
    ...((status === 429 || status === 503) && { 'Retry-After': named('RetryAfter') }),
    ...(codes.some((code) => code === 'invalid_token' || code === 'insufficient_scope') && {
      'WWW-Authenticate': named('WWWAuthenticate'),
    }),
  };
}

function schemaOf(codes: ErrorCode[], under: 'oauth' | 'api'): Schema {
  const problem = narrowed('Problem', 'code', codes);
  if (under === 'api') return problem;
  const oauth = narrowed('OAuthProblem', 'error', [...new Set(codes.map(oauthErrorOf))]);
  const early = codes.filter((code) => byParser.includes(code));
  return early.length === 0 ? oauth : { anyOf: [oauth, narrowed('Problem', 'code', early)] };
}

const narrowed = (schema: string, member: string, values: string[]): Schema => ({
  allOf: [ref(schema), { type: 'object', properties: { [member]: { enum: values } } }],
});

function example(code: ErrorCode, under: 'oauth' | 'api'): Schema {
  const message = exampleMessages[code];
  return {
    summary: code,
    value:
      under === 'oauth'
        ? { error: oauthErrorOf(code), error_description: message }
        : { msg: message, code, request_id: '0b2f1d0e-5a4c-4c0e-9a43-1f2d6f0c7b11' },
  };
}
