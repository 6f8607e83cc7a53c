/** Holds an answer of the API against its OpenAPI description: status, headers, content type, body. */
import assert from 'node:assert/strict';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { openapi } from '../../../src/api/reference/openapi.js';
import type { Schema } from '../../../src/api/reference/schemas.js';

export interface Answer {
  method: string;
  /** As it was asked for, without the query. */
  path: string;
  status: number;
  headers: Headers;
  text: string;
}

export type Operations = Record<string, Record<string, { responses: Record<string, Schema> }>>;
export const paths: Operations = openapi.paths;

const ajv = new Ajv2020({ strict: false, validateSchema: false, allErrors: true });
ajv.addFormat('date-time', /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$/);
ajv.addSchema(openapi, 'openapi.json');

/** Fails where a value is not what the schema at this place of the description says. */
export function assertFits(value: unknown, place: readonly string[], told: string): void {
  const pointer = place
    .map((part) => encodeURIComponent(part.replaceAll('~', '~0').replaceAll('/', '~1')))
    .join('/');
  const $ref = `openapi.json#/${pointer}`;
  const fits = ajv.getSchema($ref) ?? ajv.compile({ $ref });
  assert.ok(fits(value), `${told}: ${ajv.errorsText(fits.errors)} in ${JSON.stringify(value).slice(0, 400)}`);
}

const templates = Object.keys(paths).map((path) => ({
  path,
  matches: new RegExp(`^${path.replaceAll(/\{\w+\}/g, '[^/]+')}$`),
}));

/** Returns the described path that a request goes to; one without parameters comes first, as in the router. */
const describedPath = (path: string): string | undefined =>
  paths[path] ? path : templates.find(({ matches }) => matches.test(path))?.path;

export function assertDescribed({ method, path, status, headers, text }: Answer): void {
  if (method === 'HEAD' || method === 'OPTIONS') return;
  const told = `${method} ${path} ${status}`;
  const known = describedPath(path);
  const verb = method.toLowerCase();
  // GET /notifications/recover is a call for a notification of that name.
  const template = known && !paths[known]?.[verb] ? describedPath(path.replace(/[^/]+$/, 'x')) : known;
  const operation = template === undefined ? undefined : paths[template]?.[verb];
  if (template === undefined || operation === undefined) {
    if (path.startsWith('/docs/') && status === 200) return;
    const schema = /^\/oauth\//i.test(path) ? 'OAuthProblem' : 'Problem';
    assertFits(JSON.parse(text), ['components', 'schemas', schema], told);
    return;
  }
  const response = operation.responses[String(status)];
  assert.ok(response, `${told} is not described: ${text.slice(0, 200)}`);
  assertHeaders(response, headers, told);
  if (status === 429) assert.ok(headers.has('ratelimit') && headers.has('ratelimit-policy'), told);
  const [type] = Object.keys((response.content as Schema) ?? {});
  assert.equal(headers.get('content-type')?.split(';')[0], type, told);
  if (type !== 'application/json' || path === '/openapi.json') return;
  const place = ['paths', template, verb, 'responses', String(status), 'content', type, 'schema'];
  assertFits(JSON.parse(text), place, told);
}

function assertHeaders(response: Schema, headers: Headers, told: string): void {
  for (const [name, of] of Object.entries((response.headers as Record<string, Schema>) ?? {})) {
    const named = String(of.$ref ?? '')
      .split('/')
      .at(-1) as keyof typeof openapi.components.headers;
    const header = (of.$ref === undefined ? of : openapi.components.headers[named]) as Schema;
    const value = headers.get(name);
    if (header.required) assert.ok(value !== null, `${told} has no ${name}`);
    const { pattern } = header.schema as { pattern?: string };
    if (value !== null && pattern) assert.match(value, new RegExp(pattern), `${told}: ${name}`);
  }
}
