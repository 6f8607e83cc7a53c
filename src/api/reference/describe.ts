/** Describes a declared call in OpenAPI's terms: its input, its answers, its errors. */
import type { z } from 'zod';
import { typeOf } from '../apiError.js';
import type { Description } from '../endpoint.js';
import { type ErrorCode, errors, oauthErrorOf } from '../errors.js';
import { exampleOf, jsonSchemaOf, type Schema } from './schemas.js';

interface Media {
  schema: Schema;
  examples: Record<string, { value: unknown }>;
}

interface Response extends Schema {
  content: Record<string, Partial<Media>>;
}

export type Operation = ReturnType<typeof operationOf>;

/** Returns the operations by path and method. */
export function describe(calls: readonly Description[]): Record<string, Record<string, Operation>> {
  const paths: Record<string, Record<string, Operation>> = {};
  for (const call of calls) paths[call.path] = { ...paths[call.path], [call.method]: operationOf(call) };
  return paths;
}

function operationOf(of: Description) {
  const answers = Object.entries(of.answers).map(
    ([status, answer]) => [status, answerOf(of, answer)] as const,
  );
  return {
    operationId: of.operationId,
    tags: [of.tag],
    summary: of.summary,
    description: of.after503 ? `${of.description} After 503 or no answer: ${of.after503}` : of.description,
    security: securityOf(of.security),
    parameters: [...parametersOf('query', of.query), ...parametersOf('path', of.inPath)],
    ...(of.body && { requestBody: bodyOf(of.body) }),
    // An answer of its own takes the place of a refusal with the same status (/readyz: 503).
    responses: { ...refusals(of.codes, of.under), ...Object.fromEntries(answers) } as Record<
      string,
      Response
    >,
  };
}

function securityOf(security: Description['security']): Schema[] {
  if (security === undefined) return [];
  if (security === 'token') return [{ bearer: [] }];
  if (security === 'tokenAnywhere') return [{ bearer: [] }, { accessToken: [] }];
  return [{ bearer: [security.scope] }];
}

const parametersOf = (where: 'query' | 'path', of: z.ZodObject | undefined) =>
  Object.entries((of?.shape ?? {}) as Record<string, z.ZodType>).map(([name, schema]) =>
    parameterOf(name, where, schema, exampleOf(schema)),
  );

/** Describes a parameter or a header; it is required if its schema refuses its absence. */
export function parameterOf(name: string, where: string, of: z.ZodType, example: unknown) {
  const { description, ...schema } = jsonSchemaOf(of);
  const required = !of.safeParse(undefined).success;
  return { name, in: where, description, required, schema, example };
}

function bodyOf({ schema, types = ['application/json'], examples }: NonNullable<Description['body']>) {
  const named = Object.entries(examples).map(([summary, value]) => [summary, { summary, value }] as const);
  const media = { schema: jsonSchemaOf(schema), examples: Object.fromEntries(named) };
  return { required: true, content: Object.fromEntries(types.map((type) => [type, media])) };
}

function answerOf(
  { rate }: Description,
  { what, schema, type, headers }: Description['answers'][number],
): Response {
  const json = schema && {
    schema: jsonSchemaOf(schema),
    examples: { answer: { summary: what, value: exampleOf(schema) } },
  };
  return {
    description: what,
    headers: { 'X-Request-Id': headerOf('RequestId'), ...(rate && rateHeaders), ...headers },
    content: json ? { 'application/json': json } : { [type ?? 'application/json']: {} },
  };
}

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
    const status = errors[code].status;
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
        examples: Object.fromEntries(codes.map((code) => [code, exampleProblem(code, under)])),
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

function exampleProblem(code: ErrorCode, under: Under) {
  const { meaning } = errors[code];
  const request_id = '0b2f1d0e-5a4c-4c0e-9a43-1f2d6f0c7b11';
  const ofApi = { msg: meaning, code, type: typeOf(code), title: meaning, request_id };
  const ofOauth = { error: oauthErrorOf(code), error_description: meaning };
  return { summary: code, value: under === 'oauth' ? ofOauth : ofApi };
}
