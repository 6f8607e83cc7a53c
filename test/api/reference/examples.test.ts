import assert from 'node:assert/strict';
import { Webhook } from 'standardwebhooks';
import type { Media, Operation } from '../../../src/api/reference/describe.js';
import { openapi } from '../../../src/api/reference/openapi.js';
import {
  exampleNotice,
  exampleNotification,
  exampleSecret,
  webhooks,
} from '../../../src/api/reference/webhook.js';
import { noticeKinds } from '../../../src/redis/records/notices.js';
import { forgetSends } from '../forgetSends.js';
import { newCustomer, newToken, type RunningApi, startApi, tokenFields } from '../runningApi.js';
import { assertFits } from './described.js';
import { answersChecked, assertAllDescribed, watchAnswers } from './watchAnswers.js';

const operations = Object.entries(openapi.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => ({ path, method, operation })),
);

describe('the examples of the description', () => {
  it('each call has a unique operationId, a described tag, a description and an example of every error', () => {
    const ids = operations.map(({ operation }) => operation.operationId);
    assert.equal(new Set(ids).size, ids.length);
    const tags = openapi.tags.map(({ name }) => name);
    for (const { operation, path } of operations) {
      for (const tag of operation.tags) assert.ok(tags.includes(tag), tag);
      assert.ok(operation.description.length > 0, path);
      for (const parameter of operation.parameters)
        assert.ok('example' in parameter, `${path} ${parameter.name}`);
      for (const [status, answer] of Object.entries(operation.responses)) {
        const [media] = Object.values(answer.content);
        if (media?.schema) assert.ok(Object.keys(media.examples ?? {}).length > 0, `${path} ${status}`);
      }
    }
  });

  for (const { path, method, operation } of operations) {
    it(`${method.toUpperCase()} ${path}: fit its schemas`, () => {
      const at = ['paths', path, method];
      for (const [i, { name, example }] of operation.parameters.entries()) {
        assertFits(example, [...at, 'parameters', String(i), 'schema'], name);
      }
      const bodies: [string[], Record<string, Partial<Media>>][] = Object.entries(operation.responses).map(
        ([status, answer]) => [[...at, 'responses', status], answer.content],
      );
      if (operation.requestBody) bodies.push([[...at, 'requestBody'], operation.requestBody.content]);
      for (const [place, content] of bodies) {
        for (const [type, { examples = {} }] of Object.entries(content)) {
          for (const [name, { value }] of Object.entries(examples)) {
            assertFits(value, [...place, 'content', type, 'schema'], name);
          }
        }
      }
    });
  }

  it('the notification verifies with a public library, and fits its schema', () => {
    const { headers, body } = exampleNotification('asset-update', 'vid-9');
    const webhook = new Webhook(exampleSecret);
    assert.throws(() => webhook.verify(body, headers), /too old/i);
    const [, signature] = (headers['webhook-signature'] ?? '').split(',');
    const signed = webhook.sign('msg_3q2-7wABAgMEBQYHCAkKCw', new Date('2026-01-31T12:00:00Z'), body);
    assert.equal(`v1,${signature}`, signed);
    const at = ['webhooks', 'asset-update', 'post'];
    const { parameters } = openapi.webhooks['asset-update'].post;
    parameters.forEach((parameter, i) => {
      assert.equal(parameter.example, headers[String(parameter.name)]);
      assertFits(parameter.example, [...at, 'parameters', String(i), 'schema'], String(parameter.name));
    });
    const { examples } = openapi.webhooks['asset-update'].post.requestBody.content['application/json'];
    assert.deepEqual(Object.values(examples)[0]?.value, JSON.parse(body));
    for (const { value } of Object.values(examples)) {
      assertFits(value, [...at, 'requestBody', 'content', 'application/json', 'schema'], 'webhook');
    }
  });
});

describe('the examples of the notices', () => {
  for (const kind of noticeKinds) {
    it(`${kind}: verifies with a public library, and fits its schema`, () => {
      const { headers, body } = exampleNotice(kind);
      const [, signature] = (headers['webhook-signature'] ?? '').split(',');
      const sentAt = new Date('2026-01-31T12:00:00Z');
      const signed = new Webhook(exampleSecret).sign(headers['webhook-id'] ?? '', sentAt, body);
      assert.equal(`v1,${signature}`, signed);
      const at = ['webhooks', kind, 'post'];
      const { parameters, requestBody } =
        (webhooks as Record<string, (typeof webhooks)['asset-update']>)[kind]?.post ?? assert.fail();
      parameters.forEach((parameter, i) => {
        assert.equal(parameter.example, headers[String(parameter.name)]);
        assertFits(parameter.example, [...at, 'parameters', String(i), 'schema'], String(parameter.name));
      });
      const [{ value } = assert.fail()] = Object.values(requestBody.content['application/json'].examples);
      assert.deepEqual(value, JSON.parse(body));
      assertFits(value, [...at, 'requestBody', 'content', 'application/json', 'schema'], kind);
    });
  }
});

describe('each example, sent to the service', () => {
  let api: RunningApi;
  let authorization: string;
  /** The names in the examples, and their values here. */
  let here: [example: string, real: string][];

  before(async () => {
    api = await startApi({ lookup: async () => [{ address: '127.0.0.1', family: 4 }] });
    const customer = await newCustomer(api, ['push_notifications', 'enrichments']);
    authorization = `Bearer ${await newToken(api, customer)}`;
    const { client_id, client_secret } = tokenFields(customer);
    const example = bodyOf('/oauth/access_token', 'post') as Record<string, string>;
    here = [
      ['SITE0042', customer.client_token],
      [example.client_id ?? '', client_id],
      [example.client_secret ?? '', client_secret],
    ];
    assert.equal((await send('/register_push_notifications', 'post')).status, 200);
    assert.equal((await send('/notices', 'put', bodyOf('/notices', 'put'))).status, 200);
    const event = bodyOf('/enrichments', 'post');
    const published = await send('/enrichments', 'post', event);
    const { notification_id: id } = (await published.json()) as { notification_id: string };
    here.push(['msg_3q2-7wABAgMEBQYHCAkKCw', id]);
  });
  after(() => api.close());

  const bodyOf = (path: string, method: string, name?: string, type?: string): unknown => {
    const { content = {} } = operationOf(path, method).requestBody ?? {};
    const media = content[type ?? Object.keys(content)[0] ?? ''];
    return Object.entries(media?.examples ?? {}).find(([key]) => name === undefined || key === name)?.[1]
      .value;
  };
  const operationOf = (path: string, method: string): Operation =>
    openapi.paths[path]?.[method] ?? assert.fail(path);
  const real = (text: string): string =>
    here.reduce((said, [example, is]) => said.replaceAll(example, is), text);

  /** Together the examples send more often than one client may. */
  const freshLimit = () => forgetSends(api.deps.db, real('SITE0042'));

  async function send(
    path: string,
    method: string,
    body?: unknown,
    type = 'application/json',
  ): Promise<Response> {
    const { parameters } = operationOf(path, method);
    const query = new URLSearchParams();
    let filled = path;
    for (const { name, in: where, example, required } of parameters) {
      if (where === 'path') filled = filled.replace(`{${name}}`, encodeURIComponent(real(String(example))));
      else if (required) query.set(name, real(String(example)));
    }
    const init: RequestInit = { method: method.toUpperCase(), headers: { authorization } };
    if (type === 'application/json') {
      if (body !== undefined) {
        init.body = real(JSON.stringify(body));
        init.headers = { authorization, 'content-type': type };
      }
    } else {
      const fields = JSON.parse(real(JSON.stringify(body))) as Record<string, string>;
      if (type === 'multipart/form-data') {
        const form = new FormData();
        for (const [name, value] of Object.entries(fields)) form.set(name, value);
        init.body = form;
      } else init.body = new URLSearchParams(fields);
    }
    return await fetch(`${api.url}${filled}?${query}`, init);
  }

  for (const { path, method, operation } of operations) {
    if (path === '/register_push_notifications') continue;
    const bodies = Object.entries(
      operation.requestBody?.content ?? { 'application/json': {} as Partial<Media> },
    ).flatMap(([type, { examples = { alone: { value: undefined } } }]) =>
      Object.entries(examples).map(([name, { value }]) => ({ type, name, value })),
    );
    for (const { type, name, value } of bodies) {
      it(`${method.toUpperCase()} ${path} ${name} ${type}: is answered with success, as described`, async () => {
        await freshLimit();
        const answer = await send(path, method, value, type);
        const text = await answer.clone().text();
        const [success] = Object.keys(operation.responses).filter((status) => status.startsWith('2'));
        assert.equal(String(answer.status), success, text);
        await assertAllDescribed();
      });
    }
  }

  it('POST /register_push_notifications: was answered with success, and a repeat with a described 400', async () => {
    const again = await send('/register_push_notifications', 'post');
    assert.equal(((await again.json()) as { code: string }).code, 'already_registered');
  });
});

describe('an answer that is not as described', () => {
  it('fails the test that got it', async () => {
    const { createServer } = await import('node:http');
    const server = createServer((_, res) => {
      res.writeHead(200, { 'content-type': 'application/json', 'x-request-id': '1' }).end('{"clients":[{}]}');
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as { port: number };
    watchAnswers(`http://127.0.0.1:${port}`);
    const before = answersChecked();
    const answer = await fetch(`http://127.0.0.1:${port}/clients`);
    await assert.rejects(assertAllDescribed(), /GET \/clients 200: .*client_token/);
    assert.deepEqual(await answer.json(), { clients: [{}] });
    assert.equal(answersChecked(), before);
    server.close();
  });
});
