import assert from 'node:assert/strict';
import { createClient } from '../../src/redis/records/clients.js';
import { startProxy } from '../proxy.js';
import { itWithOneRedis, servers } from '../servers.js';
import { newCustomer, newToken, type RunningApi, startApi } from '../service.js';

describe('a rate per account', () => {
  let api: RunningApi;
  /** Names that were looked up. */
  const asked: string[] = [];
  const env = { ACCOUNT_RATE_PER_SECOND: '0.5' };
  const quota = 5;

  before(async () => {
    const lookup = async (host: string) => {
      asked.push(host);
      return [{ address: '127.0.0.1', family: 4 as const }];
    };
    api = await startApi({ env, lookup });
  });
  after(() => api.close());

  const call = (token: string, method: string, path: string, query: Record<string, string> = {}) =>
    fetch(`${api.url}${path}?${new URLSearchParams(query)}`, {
      method,
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      ...(/recover|replay/.test(path) && { body: '{"since":"2026-01-01T00:00:00Z"}' }),
    });

  it('bounds calls that read many records, with RateLimit fields on each answer, then 429 with Retry-After', async () => {
    const customer = await newCustomer(api, ['push_notifications', 'enrichments']);
    const token = await newToken(api, customer);
    for (let left = quota - 1; left >= 0; left--) {
      const answer = await call(token, 'GET', '/clients');
      assert.equal(answer.status, 200);
      assert.equal(answer.headers.get('ratelimit-policy'), `"records";q=${quota};w=10`);
      assert.match(answer.headers.get('ratelimit') ?? '', new RegExp(`^"records";r=${left};t=([1-9]|10)$`));
    }
    const client = { client_token: customer.client_token };
    for (const [method, path, query] of [
      ['GET', '/clients', {}],
      ['GET', '/notifications', client],
      ['GET', '/events/an-1', client],
      ['GET', '/updates', client],
      ['POST', '/notifications/recover', client],
      ['POST', '/notifications/replay', client],
    ] as const) {
      const refused = await call(token, method, path, query);
      const { code } = (await refused.json()) as { code: string };
      assert.deepEqual([refused.status, code], [429, 'too_many_requests'], path);
      const [, seconds] = /^"records";r=0;t=(\d+)$/.exec(refused.headers.get('ratelimit') ?? '') ?? [];
      assert.equal(refused.headers.get('retry-after'), seconds, path);
      assert.equal(refused.headers.get('ratelimit-policy'), `"records";q=${quota};w=10`);
    }
  });

  it('bounds calls that look up a name: none of them looks up a name beyond it', async () => {
    const customer = await newCustomer(api);
    const token = await newToken(api, customer);
    asked.length = 0;
    const statuses: number[] = [];
    for (let i = 0; i < quota + 2; i++) {
      const client_token = (await newClient(customer.account_id)).clientToken;
      const url = `https://host-${i}.example/`;
      const path = i % 2 === 0 ? '/register_push_notifications' : '/push_notifications/test';
      const answer = await call(token, 'POST', path, { client_token, url });
      statuses.push(answer.status);
      assert.equal(answer.headers.get('ratelimit-policy'), '"names";q=5;w=10');
    }
    assert.deepEqual(statuses, [...Array(quota).fill(200), 429, 429]);
    assert.equal(new Set(asked).size, quota);
  });

  it('does not count a url with an address, or an invalid one', async () => {
    const customer = await newCustomer(api);
    const token = await newToken(api, customer);
    const query = { client_token: customer.client_token, url: 'http://127.0.0.1:9/hook' };
    const answers = await Promise.all(
      Array.from({ length: 3 * quota }, () => call(token, 'POST', '/register_push_notifications', query)),
    );
    const statuses = answers.map(({ status }) => status);
    assert.deepEqual(statuses.sort(), [200, ...Array(3 * quota - 1).fill(400)]);
  });

  it('counts the two kinds separately, for each account', async () => {
    const [one, other] = [await newCustomer(api), await newCustomer(api)];
    const [ofOne, ofOther] = [await newToken(api, one), await newToken(api, other)];
    for (let i = 0; i <= quota; i++) await call(ofOne, 'GET', '/clients');
    assert.equal((await call(ofOne, 'GET', '/clients')).status, 429);
    assert.equal((await call(ofOther, 'GET', '/clients')).status, 200);
    const query = { client_token: one.client_token, url: 'https://apart.example/' };
    assert.equal((await call(ofOne, 'POST', '/register_push_notifications', query)).status, 200);
  });

  it('counts over all processes, and not calls refused before', async () => {
    const second = await startApi({ prefix: api.prefix, env });
    const customer = await newCustomer(api);
    const token = await newToken(api, customer);
    for (let i = 0; i <= quota; i++) await call('no-token', 'GET', '/clients');
    for (let i = 0; i < quota; i++) assert.equal((await call(token, 'GET', '/clients')).status, 200);
    const elsewhere = await fetch(`${second.url}/clients`, { headers: { authorization: `Bearer ${token}` } });
    assert.equal(elsewhere.status, 429);
    await second.close();
  });

  itWithOneRedis('answers 503 while Redis is unavailable, as without a rate', async () => {
    const proxy = await startProxy(servers().redisUrl);
    const cut = await startApi({ redisUrl: proxy.url, env });
    const token = await newToken(cut, await newCustomer(cut));
    proxy.hang();
    const headers = { authorization: `Bearer ${token}` };
    assert.equal((await fetch(`${cut.url}/clients`, { headers })).status, 503);
    proxy.release();
    await cut.close();
    await proxy.close();
  });

  const newClient = (accountId: string) => createClient(api.deps.db, { accountId, name: 'Site' });
});

describe('GET /clients, page by page', () => {
  let api: RunningApi;
  before(async () => {
    api = await startApi();
  });
  after(() => api.close());

  interface Page {
    clients: { client_token: string }[];
    next_cursor?: string;
  }

  it('lists every client once, by client token, also while clients come and go', async () => {
    const customer = await newCustomer(api);
    const accountId = customer.account_id;
    const names = Array.from({ length: 12 }, (_, i) => `page-${accountId}-${String(i).padStart(2, '0')}`);
    for (const clientToken of names)
      await createClient(api.deps.db, { accountId, name: 'Site', clientToken });
    const headers = { authorization: `Bearer ${await newToken(api, customer)}` };
    const seen: string[] = [];
    let cursor: string | undefined;
    do {
      const query = new URLSearchParams({ limit: '5', ...(cursor !== undefined && { cursor }) });
      const page = (await (await fetch(`${api.url}/clients?${query}`, { headers })).json()) as Page;
      assert.ok(page.clients.length <= 5);
      seen.push(...page.clients.map(({ client_token }) => client_token));
      cursor = page.next_cursor;
      // In front of the cursor: it moves nothing that is still to come.
      await createClient(api.deps.db, {
        accountId,
        name: 'Early',
        clientToken: `0${seen.length}-${accountId}`,
      });
    } while (cursor !== undefined);
    assert.deepEqual(seen, [customer.client_token, ...names].sort());
  });

  it('lists 50 by default, without a cursor on the last page', async () => {
    const customer = await newCustomer(api);
    const accountId = customer.account_id;
    for (let i = 0; i < 50; i++) await createClient(api.deps.db, { accountId, name: 'Site' });
    const headers = { authorization: `Bearer ${await newToken(api, customer)}` };
    const read = async (query: string) =>
      (await (await fetch(`${api.url}/clients${query}`, { headers })).json()) as Page;
    const first = await read('');
    assert.equal(first.clients.length, 50);
    const last = await read(`?cursor=${first.next_cursor}`);
    assert.deepEqual([last.clients.length, last.next_cursor], [1, undefined]);
    assert.equal((await read('?limit=51')).next_cursor, undefined);
  });
});
