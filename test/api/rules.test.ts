/** Every call of the description, held against the rules that all calls have in common. */
import assert from 'node:assert/strict';
import { openapi } from '../../src/api/reference/openapi.js';
import type { Schema } from '../../src/api/reference/schemas.js';
import { newCustomer, newToken, type RunningApi, sharedApi, tokenFields } from '../service.js';

const calls = Object.entries(openapi.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => ({
    name: `${method.toUpperCase()} ${path}`,
    path,
    method,
    operation,
  })),
);
const registration = '/register_push_notifications';

describe('every call', () => {
  let api: RunningApi;
  let customer: Awaited<ReturnType<typeof newCustomer>>;
  let authorization: string;
  const scopes = ['push_notifications', 'enrichments', 'signing_secrets'];

  before(async () => {
    api = await sharedApi();
    customer = await newCustomer(api, scopes);
    authorization = `Bearer ${await newToken(api, customer)}`;
  });

  interface Asked {
    query?: Record<string, string>;
    headers?: Record<string, string>;
    type?: string;
  }

  /** Asks with what the description requires, except as said; an empty header is left out. */
  async function ask({ path, method, operation }: (typeof calls)[number], { query, headers, type }: Asked) {
    const asked = new URLSearchParams();
    let filled = path;
    for (const { name, in: where, required, example } of operation.parameters) {
      if (where === 'path') filled = filled.replace(`{${name}}`, encodeURIComponent(String(example)));
      else if (required) asked.set(name, name === 'client_token' ? customer.client_token : String(example));
    }
    for (const [name, value] of Object.entries(query ?? {})) asked.set(name, value);
    const sent = { authorization, ...headers };
    const [bodyType, media] = Object.entries(operation.requestBody?.content ?? {})[0] ?? [];
    const [example] = Object.values(media?.examples ?? {});
    const isJson = bodyType === 'application/json';
    const answer = await fetch(`${api.url}${filled}?${asked}`, {
      method,
      headers: Object.entries({ ...sent, ...(isJson && { 'content-type': type ?? bodyType }) }).filter(
        ([, value]) => value !== '',
      ) as [string, string][],
      ...(isJson && { body: JSON.stringify(example?.value) }),
      ...(bodyType && !isJson && { body: new URLSearchParams(tokenFields(customer)) }),
    });
    return { status: answer.status, headers: answer.headers, text: await answer.text() };
  }

  for (const call of calls) {
    const { name, path, method, operation } = call;

    it(`${name}: refuses 8,000 parameters before anything is looked up`, async () => {
      const answer = await fetch(`${api.url}${path}?${'a&'.repeat(8_000)}`, { method });
      const { code, error } = (await answer.json()) as Record<string, string>;
      assert.deepEqual(
        [answer.status, code ?? error],
        [400, code ? 'too_many_parameters' : 'invalid_request'],
      );
    });

    it(`${name}: refuses an unknown parameter`, async () => {
      const { status, text } = await ask(call, { query: { after_all: '1' } });
      assert.deepEqual([status, /after_all is not known/.test(text)], [400, true], text);
    });

    if (operation.requestBody?.content['application/json']) {
      it(`${name}: answers 415 to a body that does not say that it is JSON`, async () => {
        for (const type of ['text/plain', 'application/jsonp', '']) {
          assert.equal((await ask(call, { type })).status, 415, type);
        }
        assert.notEqual((await ask(call, { type: 'Application/JSON ; charset=utf-8' })).status, 415);
      });
    }

    if (path !== registration && operation.parameters.some((one) => one.name === 'client_token')) {
      it(`${name}: answers 404 unknown_client to a wrong client token`, async () => {
        const { status, text } = await ask(call, { query: { client_token: 'NOBODY' } });
        assert.deepEqual([status, (JSON.parse(text) as { code: string }).code], [404, 'unknown_client']);
      });
    }

    if (operation.security.length > 0 && path !== registration) {
      it(`${name}: tells a caller without a token how to send one`, async () => {
        const { status, headers, text } = await ask(call, { headers: { authorization: '' } });
        assert.deepEqual([status, headers.get('www-authenticate')], [401, 'Bearer']);
        assert.match((JSON.parse(text) as { msg: string }).msg, /send Authorization: Bearer/);
        const twice = await ask(call, { query: { access_token: 'x' } });
        assert.equal(twice.status, 400);
        assert.match(twice.text, /send Authorization: Bearer/);
      });
    }

    it(`${name}: a list has cursor, next_cursor and has_more`, () => {
      const members = membersOf(operation.responses['200']);
      const names = operation.parameters.map((one) => one.name);
      const isList = names.includes('limit');
      assert.equal(names.includes('cursor'), isList);
      assert.equal('next_cursor' in members, isList);
      assert.equal('has_more' in members, isList);
      assert.ok(!names.includes('after'));
    });

    it(`${name}: 429 has RateLimit, RateLimit-Policy and Retry-After`, () => {
      const { headers } = (operation.responses['429'] ?? {}) as { headers?: Schema };
      if (headers === undefined) return;
      for (const one of ['RateLimit', 'RateLimit-Policy', 'Retry-After']) assert.ok(one in headers, one);
    });

    if (method !== 'get' && operation.responses['503'] !== undefined) {
      it(`${name}: says what to do after 503`, () =>
        assert.match(operation.description, /After 503 or no answer: /));
    }
  }

  it('has errors whose type is a page that explains the code', async () => {
    const answer = await fetch(`${api.url}/nowhere`);
    const { type, title, code } = (await answer.json()) as Record<string, string>;
    assert.deepEqual([type, code], ['/docs/errors#not_found', 'not_found']);
    const page = await (await fetch(new URL(String(type), api.url))).text();
    assert.ok(page.includes('<section id="not_found">') && page.includes(String(title).split('.')[0] ?? ''));
  });
});

const membersOf = (response: Schema | undefined): Schema => {
  const [media] = Object.values((response?.content ?? {}) as Record<string, { schema?: Schema }>);
  return (media?.schema?.properties ?? {}) as Schema;
};
