/** Describes a declared call in OpenAPI's terms: its input, its answers, its errors. */
import type { z } from 'zod';
import { ApiError, isUnderOauth, presentProblem } from '../../http/apiError.js';
import { type ErrorCode, errors, toOauthError } from '../../http/errors.js';
import { makeExample } from '../../http/example.js';
import { opened, type Schema, toJsonSchema } from '../../http/schemas.js';
import type { Call, Description } from '../call.js';

type Described = Call & { operationId: string; tag: string };

export function describe(calls: readonly Described[]) {
  const paths: Record<string, Record<string, ReturnType<typeof operation>>> = {};
  for (const call of calls) paths[call.path] = { ...paths[call.path], [call.method]: operation(call) };
  return paths;
}

function operation(call: Described) {
  const { operationId, tag, summary, description, after503, body } = call;
  const results = { [call.status ?? 200]: call.result, ...call.otherResults };
  const answers = Object.entries(results).map(([status, of]) => [status, answer(call, of)] as const);
  return {
    operationId,
    tags: [tag],
    summary,
    description: after503 ? `${description} After 503 or no answer: ${after503}` : description,
    security: call.security ?? [],
    parameters: [...parameters('query', call.query), ...parameters('path', call.inPath)],
    ...(body && { requestBody: requestBody(body) }),
    // A call's own answer takes the place of a refusal with the same status (/readyz: 503).
    responses: { ...refusals(call), ...Object.fromEntries(answers) } as Record<string, Schema>,
  };
}

const parameters = (where: 'query' | 'path', object: z.ZodObject | undefined) =>
  Object.entries((object?.shape ?? {}) as Record<string, z.ZodType>).map(([name, schema]) =>
    parameter(name, where, schema, makeExample(schema)),
  );

/** Describes a parameter or a header; it is required if its schema refuses its absence. */
export function parameter(name: string, where: string, from: z.ZodType, example: unknown) {
  const { description, ...schema } = toJsonSchema(from);
  const required = !from.safeParse(undefined).success;
  return { name, in: where, description, required, schema, example };
}

export function requestBody({
  schema,
  type = 'application/json',
  examples,
}: NonNullable<Description['body']>) {
  const named = Object.entries(examples).map(([summary, value]) => [summary, { summary, value }] as const);
  const media = { schema: toJsonSchema(schema), examples: Object.fromEntries(named) };
  return { required: true, content: { [type]: media } };
}

function answer({ rate }: Described, { what, schema, type, headers }: Description['result']) {
  const json = schema && {
    schema: opened(toJsonSchema(schema)),
    examples: { answer: { summary: what, value: makeExample(schema) } },
  };
  return {
    description: what,
    headers: { 'X-Request-Id': header('RequestId'), ...(rate && rateHeaders), ...headers },
    ...(json ? { content: { 'application/json': json } } : type && { content: { [type]: {} } }),
  };
}

const anyCall: readonly ErrorCode[] = [
  'invalid_request',
  'too_many_parameters',
  'malformed_request',
  'request_timeout',
  'expectation_failed',
  'headers_too_long',
  'server_error',
];

/** Codes of the HTTP parser, which refuses before it knows the path: never in the form of RFC 6749. */
const parserCodes = ['malformed_request', 'request_timeout', 'headers_too_long', 'body_too_long'];

/** Describes one answer for each status, with its codes, headers and an example for each code. */
function refusals({ codes = [], path, security, body }: Described) {
  const ofToken: ErrorCode[] = security ? ['invalid_token'] : [];
  const ofBody: ErrorCode[] = body ? ['body_too_long', 'unsupported_media_type'] : [];
  const ofStore: ErrorCode[] = security || body ? ['temporarily_unavailable'] : [];
  const ofPace: ErrorCode[] = /^\/(healthz|readyz)$/.test(path) ? [] : ['too_many_requests'];
  const all = [...new Set([...ofToken, ...codes, ...ofBody, ...ofStore, ...ofPace, ...anyCall])];
  const statuses = [...new Set(all.map((code) => errors[code].status))];
  const described = statuses.map((status): [number, unknown] => {
    const those = all.filter((code) => errors[code].status === status);
    const schema = problemSchema(those, path);
    const examples = Object.fromEntries(those.map((code) => [code, exampleProblem(code, path)]));
    const description = those.map((code) => inWords(code, path)).join('\n');
    const content = { 'application/json': { schema, examples } };
    return [status, { description, headers: refusalHeaders(status, those), content, 'x-known-codes': those }];
  });
  return Object.fromEntries(described);
}

function inWords(code: ErrorCode, path: string): string {
  const name = isUnderOauth(path) ? toOauthError(code) : code;
  const { meaning, remedy } = errors[code];
  return `- \`${name}\`: ${meaning} ${remedy}`;
}

function refusalHeaders(status: number, codes: ErrorCode[]): Schema {
  const isChallenge = status === 401 || codes.includes('insufficient_scope');
  return {
    'X-Request-Id': header('RequestId'),
    ...(status === 429 && rateHeaders),
    ...((status === 429 || status === 503) && { 'Retry-After': header('RetryAfter') }),
    ...(isChallenge && { 'WWW-Authenticate': header('WWWAuthenticate') }),
  };
}

const header = (name: string): Schema => ({ $ref: `#/components/headers/${name}` });

/** The headers that name a limit and what is left of it (docs/reference/limits.md). */
const rateHeaders = { RateLimit: header('RateLimit'), 'RateLimit-Policy': header('RateLimitPolicy') };

const problem = { $ref: '#/components/schemas/Problem' };
const oauthProblem = { $ref: '#/components/schemas/OAuthProblem' };

/** The codes stand in the description and the examples: a schema that names them would refuse those of later versions. */
function problemSchema(codes: ErrorCode[], path: string): Schema {
  if (!isUnderOauth(path)) return problem;
  return codes.some((code) => parserCodes.includes(code)) ? { oneOf: [oauthProblem, problem] } : oauthProblem;
}

function exampleProblem(code: ErrorCode, path: string) {
  const err = new ApiError(code);
  return { summary: code, value: presentProblem(err, path, '0b2f1d0e-5a4c-4c0e-9a43-1f2d6f0c7b11') };
}
