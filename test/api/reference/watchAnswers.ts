/** Holds every answer that a test gets with fetch from a watched service against the API's description: status, headers, content type, body. */
import assert from 'node:assert/strict';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { openapi } from '../../../src/api/reference/openapi.js';
import { type ErrorCode, toOauthError } from '../../../src/http/errors.js';
import type { Schema } from '../../../src/http/schemas.js';

const watched = new Set<string>();
const underWay: Promise<unknown>[] = [];

/** @param url where the API listens; what it answers from now on is checked, and a test that got another answer fails */
export function watchAnswers(url: string): void {
  watched.add(new URL(url).origin);
}

const plainFetch = globalThis.fetch;
globalThis.fetch = async (input, init) => {
  const answer = await plainFetch(input, init);
  const { origin, pathname } = new URL(input instanceof Request ? input.url : input);
  // The console's pages are for browsers: no call, and some of them never end.
  if (!watched.has(origin) || /^\/console(\/|$)/.test(pathname)) return answer;
  const method = (init?.method ?? (input instanceof Request ? input.method : 'GET')).toUpperCase();
  const { status, headers } = answer;
  const checked = answer
    .clone()
    .text()
    .then(
      (text) => assertDescribed({ method, path: pathname, status, headers, text }),
      // A test may break off what it reads, or end the service.
      () => undefined,
    );
  underWay.push(checked.catch((err: Error) => err));
  return answer;
};

// Outside of mocha (examples, recorders) nobody asks.
if (typeof afterEach === 'function')
  afterEach(async () => {
    const wrong = (await Promise.all(underWay.splice(0))).find((err) => err !== undefined);
    if (wrong) throw wrong;
  });

interface Answer {
  method: string;
  /** As it was asked for, without the query. */
  path: string;
  status: number;
  headers: Headers;
  text: string;
}

type Operations = Record<string, Record<string, { responses: Record<string, Schema> }>>;
export const paths: Operations = openapi.paths;

const ajv = new Ajv2020({ strict: false, validateSchema: false, allErrors: true });
ajv.addFormat('date-time', /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$/);
ajv.addKeyword({
  keyword: 'x-known-values',
  validate: (known: string[], value: unknown) => known.some((one) => one === value),
});
ajv.addSchema(openapi, 'openapi.json');

/** Fails where a value is not what the schema at this place of the description says. */
function assertFits(value: unknown, place: readonly string[], told: string): void {
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

function assertDescribed({ method, path, status, headers, text }: Answer): void {
  if (method === 'HEAD' || method === 'OPTIONS') return;
  const told = `${method} ${path} ${status}`;
  const known = describedPath(path);
  const verb = method.toLowerCase();
  // GET /notifications/recover is a call for a notification of that name.
  const template = known && !paths[known]?.[verb] ? describedPath(path.replace(/[^/]+$/, 'x')) : known;
  const operation = template === undefined ? undefined : paths[template]?.[verb];
  if (template === undefined || operation === undefined) {
    if (path.startsWith('/docs/') && status < 400) return;
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
  const { code, error } = JSON.parse(text) as { code?: ErrorCode; error?: string };
  const codes = response['x-known-codes'] as ErrorCode[] | undefined;
  const isKnown = (one: ErrorCode) => code === one || error === toOauthError(one);
  assert.ok(codes === undefined || codes.some(isKnown), `${told}: ${text}`);
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
