/** Makes a Postman collection (format 2.1, which Bruno, Insomnia and Hoppscotch import too) of the description. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Operation, Parameter } from '../../../src/api/reference/call.js';
import { openapi } from '../../../src/api/reference/openapi.js';

export const collectionFile = join(import.meta.dirname, '../../../docs/reference/postman-collection.json');

/** The variables that a caller sets once for all calls. */
const variables: Record<string, string> = {
  baseUrl: 'http://127.0.0.1:3000',
  client_id: '',
  client_secret: '',
  scope: 'push_notifications',
  access_token: '',
  client_token: 'SITE0042',
};
const filledIn = (name: string, example: unknown): string =>
  name in variables ? `{{${name}}}` : String(example);

export function collection(): string {
  const info = {
    name: openapi.info.title,
    description: `${openapi.info.description} Send “Create an access token” first: the calls after it use its token.`,
    schema: 'https://schema.getpostman.com/json/collection/v2.1.0/collection.json',
  };
  const calls = Object.entries(openapi.paths as Record<string, Record<string, Operation>>).flatMap(
    ([path, methods]) => Object.entries(methods).map(([method, of]) => ({ path, method, of })),
  );
  const item = openapi.tags.map(({ name, description }) => ({
    name,
    description,
    item: calls.filter(({ of }) => of.tags.some((tag) => tag === name)).flatMap(itemsOf),
  }));
  const auth = { type: 'bearer', bearer: [{ key: 'token', value: '{{access_token}}', type: 'string' }] };
  const variable = Object.entries(variables).map(([key, value]) => ({ key, value }));
  return `${JSON.stringify({ info, auth, variable, item }, null, 2)}\n`;
}

type Call = { path: string; method: string; of: Operation };

/** Returns one item for each example of a body, in the first of its content types. */
function itemsOf({ path, method, of }: Call): unknown[] {
  const [type, media] = Object.entries(of.requestBody?.content ?? {})[0] ?? [];
  const bodies = Object.values(media?.examples ?? {});
  const several = bodies.length > 1;
  return (bodies.length > 0 ? bodies : [undefined]).map((body) => ({
    name: several && body ? `${of.summary}: ${body.summary}` : of.summary,
    ...(of.operationId === 'createAccessToken' && { event: [keepToken] }),
    request: {
      method: method.toUpperCase(),
      description: of.description,
      ...(!of.security && { auth: { type: 'noauth' } }),
      header: type === 'application/json' ? [{ key: 'Content-Type', value: type }] : [],
      url: urlOf(path, of.parameters),
      ...(body && { body: bodyOf(type, body) }),
    },
  }));
}

const keepToken = {
  listen: 'test',
  script: {
    type: 'text/javascript',
    exec: [
      "if (pm.response.code === 200) pm.collectionVariables.set('access_token', pm.response.json().access_token);",
    ],
  },
};

function urlOf(path: string, parameters: Parameter[]): unknown {
  const query = parameters
    .filter((one) => one.in === 'query')
    .map(({ name, description, example, required }) => ({
      key: name,
      value: filledIn(name, example),
      description,
      ...(!required && { disabled: true }),
    }));
  const variable = parameters
    .filter((one) => one.in === 'path')
    .map(({ name, description, example }) => ({ key: name, value: filledIn(name, example), description }));
  const parts = path.slice(1).replaceAll(/\{(\w+)\}/g, ':$1');
  const sent = query.filter((one) => !('disabled' in one)).map(({ key, value }) => `${key}=${value}`);
  return {
    raw: `{{baseUrl}}/${parts}${sent.length > 0 ? `?${sent.join('&')}` : ''}`,
    host: ['{{baseUrl}}'],
    path: parts.split('/'),
    ...(query.length > 0 && { query }),
    ...(variable.length > 0 && { variable }),
  };
}

function bodyOf(type: string | undefined, { value }: { value: unknown }): unknown {
  if (type === 'application/json') {
    const text = JSON.stringify(value, null, 2).replaceAll('"SITE0042"', '"{{client_token}}"');
    return { mode: 'raw', raw: text, options: { raw: { language: 'json' } } };
  }
  const fields = Object.entries(value as Record<string, string>);
  return {
    mode: 'urlencoded',
    urlencoded: fields.map(([key, given]) => ({ key, value: filledIn(key, given) })),
  };
}

// `npx tsx test/api/reference/collection.ts` writes it again.
if (process.argv[1] === fileURLToPath(import.meta.url)) writeFileSync(collectionFile, collection());
