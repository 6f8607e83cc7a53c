/** Describes a declared call in OpenAPI's terms: its input, its answers, its errors. */
import type { z } from 'zod';
import type { Description, Tag } from '../endpoint.js';
import { headerOf, rateHeaders, refusals } from './refusals.js';
import { exampleOf, jsonSchemaOf, type Schema } from './schema.js';

export interface Operation extends Schema {
  operationId: string;
  tags: Tag[];
  summary: string;
  description: string;
  parameters: Parameter[];
  requestBody?: Schema & { content: Record<string, Media> };
  responses: Record<string, Response>;
}

export interface Parameter extends Schema {
  name: string;
  in: string;
  required: boolean;
}

interface Response extends Schema {
  content: Record<string, Partial<Media>>;
}

export interface Media {
  schema: Schema;
  examples: Record<string, { value: unknown }>;
}

/** Returns the operations by path and method. */
export function describe(calls: readonly Description[]): Record<string, Record<string, Operation>> {
  const paths: Record<string, Record<string, Operation>> = {};
  for (const call of calls) paths[call.path] = { ...paths[call.path], [call.method]: operationOf(call) };
  return paths;
}

function operationOf(of: Description): Operation {
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
    responses: { ...refusals(of.codes, of.under), ...Object.fromEntries(answers) },
  };
}

function securityOf(security: Description['security']): Schema[] {
  if (security === undefined) return [];
  if (security === 'token') return [{ bearer: [] }];
  if (security === 'tokenAnywhere') return [{ bearer: [] }, { accessToken: [] }];
  return [{ bearer: [security.scope] }];
}

const parametersOf = (where: 'query' | 'path', of: z.ZodObject | undefined): Parameter[] =>
  Object.entries((of?.shape ?? {}) as Record<string, z.ZodType>).map(([name, schema]) =>
    parameterOf(name, where, schema, exampleOf(schema)),
  );

/** Describes a parameter or a header; it is required if its schema refuses its absence. */
export function parameterOf(name: string, where: string, of: z.ZodType, example: unknown): Parameter {
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
