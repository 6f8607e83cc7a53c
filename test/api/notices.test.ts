import assert from 'node:assert/strict';
import { Webhook } from 'standardwebhooks';
import { RedisUnavailable } from '../../src/redis/connection/unavailable.js';
import { setScopes } from '../../src/redis/records/accounts.js';
import { startReceiver, until, within } from '../receiver.js';
import { forSuite } from '../servers.js';
import { type Customer, type Json, newCustomer, newToken, useShared } from '../service.js';

describe('PUT, GET and DELETE /notices', () => {
  const h = useShared();
  const receiver = forSuite(() => startReceiver());
  let customer: Customer;

  beforeEach(async () => {
    customer = await newCustomer(h);
  });

  const call: Customer['call'] = (...asked) => customer.call(...asked);
  const forgetSends = () => h.db.redis.del(h.db.client(`notices:${customer.account_id}`).callRate('sends'));
  const put = async (url: unknown) => {
    await forgetSends();
    return await call('PUT', '/notices', { url });
  };
  const secret = async () => String((await call('GET', '/notices/signing_secret')).body.signing_secret);

  const others = [
    ['GET', '/notices'],
    ['DELETE', '/notices'],
    ['GET', '/notices/signing_secret'],
    ['POST', '/notices/signing_secret'],
  ] as const;

  it('sets, shows, replaces and removes a URL; without one each other call answers 404 no_notices_url', async () => {
    for (const [method, path] of others) {
      const { status, body } = await call(method, path);
      assert.deepEqual([status, body.code], [404, 'no_notices_url'], `${method} ${path}`);
    }
    const set = await put(receiver.url);
    const { url, state, state_reason, registered_at: at, state_since: since } = set.body;
    assert.deepEqual([set.status, url, state, state_reason], [200, receiver.url, 'active', 'registered']);
    assert.ok(Math.abs(Date.parse(String(at)) - Date.now()) < 60_000);
    assert.equal(since, at);
    const now = { delivered_until: 'now' };
    assert.deepEqual({ ...(await call('GET', '/notices')).body, ...now }, { ...set.body, ...now });
    const made = await secret();
    assert.match(made, /^whsec_/);
    assert.equal((await put(`${receiver.url}/other`)).body.url, `${receiver.url}/other`);
    assert.equal(await secret(), made, 'another URL, the same secret');
    assert.deepEqual((await call('DELETE', '/notices')).body, { removed_url: `${receiver.url}/other` });
    assert.equal((await call('GET', '/notices')).status, 404);
    await put(receiver.url);
    assert.notEqual(await secret(), made, 'it went with the URL');
  });

  it('of a platform need a token with its scope', async () => {
    const platform = await newCustomer(h, ['push_notifications', 'enrichments']);
    platform.token = await newToken(h, { ...platform, scopes: ['push_notifications'] });
    for (const [method, path] of [['PUT', '/notices'] as const, ...others]) {
      const body = method === 'PUT' ? { url: receiver.url } : undefined;
      const { status, headers, body: said } = await platform.call(method, path, body);
      assert.deepEqual([status, said.code], [403, 'insufficient_scope'], `${method} ${path}`);
      assert.match(headers.get('www-authenticate') ?? '', /scope="enrichments"/);
    }
  });

  it('applies the rules of notification URLs', async () => {
    const { status, body } = await put('http://10.0.0.1/');
    assert.deepEqual([status, body.code], [400, 'url_not_public']);
    assert.equal((await call('GET', '/notices')).status, 404, 'nothing was set');
  });

  it('tells the URL that is replaced or removed, once, signed with its secret, also if the call ends in 503, and logs if it could not', async () => {
    const [old, next] = [await startReceiver(), await startReceiver()];
    next.answer = () => 500;
    const logged: unknown[] = [];
    const { info, warn } = h.apiDeps.log;
    for (const level of ['info', 'warn'] as const)
      h.apiDeps.log[level] = ({ change, status }: Json, says?: string) => {
        if (says?.startsWith('the previous URL')) logged.push([level, change, status]);
      };
    await put(old.url);
    const signing = await secret();
    await put(old.url);
    await put(next.url);
    const { durably } = h.db;
    let written = 0;
    h.db.durably = (write) => {
      // The audit's entry is first.
      if (++written === 1) return durably(write);
      h.db.durably = durably;
      return durably((own) => write(own).then(() => Promise.reject(new RedisUnavailable('no answer'))));
    };
    assert.equal((await call('DELETE', '/notices')).status, 503);
    for (const [told, change] of [
      [old, 'replaced'],
      [next, 'removed'],
    ] as const) {
      await until('it was told', () => told.received.length > 0);
      const [{ headers, body } = assert.fail()] = told.received;
      const said = new Webhook(signing).verify(body, headers as Record<string, string>) as Json;
      assert.deepEqual([said.event, said.account_id], ['notices.changed', customer.account_id]);
      assert.match(String(said.reason), new RegExp(change));
      assert.equal(told.received.length, 1);
    }
    const both = await until('both were logged', () => logged.length === 2 && logged);
    Object.assign(h.apiDeps.log, { info, warn });
    assert.deepEqual(both, [
      ['info', 'replaced', 200],
      ['warn', 'removed', 500],
    ]);
  });

  it('are counted among the cancelled when their URL is removed before they are delivered', async () => {
    const before = await h.ended('cancelled');
    await put('http://127.0.0.1:9/');
    await call('POST', '/push_notifications/signing_secret');
    await until('one is owed', async () => (await h.endpoint(`notices:${customer.account_id}`)).owed === 1);
    await call('DELETE', '/notices');
    assert.equal(await h.ended('cancelled'), before + 1);
    assert.equal((await h.endpoint(`notices:${customer.account_id}`)).lastChange?.by, 'publisher');
  });

  it('limits calls that set or remove the URL', async () => {
    await within(5_000, async () => {
      await put(receiver.url);
      const answers = await Promise.all(
        Array.from({ length: 9 }, () => call('PUT', '/notices', { url: receiver.url })),
      );
      assert.ok(answers.some(({ status }) => status === 429));
      const refused = await call('DELETE', '/notices');
      assert.deepEqual([refused.status, refused.headers.get('ratelimit-policy')], [429, '"sends";q=8;w=40']);
    });
  });

  it('belongs to a client that no call of a customer lists or accepts', async () => {
    await put(receiver.url);
    const { clients } = (await call('GET', '/clients')).body as { clients: { client_token: string }[] };
    const listed = clients.map(({ client_token }) => client_token);
    assert.deepEqual(listed, [customer.client_token]);
    Object.assign(customer, { client_token: `notices:${customer.account_id}` });
    const { status, body } = await call('GET', '/push_notifications');
    assert.deepEqual([status, body.code], [400, 'invalid_request']);
  });

  it('of accounts with the scope enrichments is one: that of the platform; the message to a removed one names the caller', async () => {
    customer = await newCustomer(h);
    await put(receiver.url);
    await setScopes(h.db, customer.account_id, ['push_notifications', 'enrichments']);
    await put(receiver.url);
    await setScopes(h.db, customer.account_id, ['push_notifications']);
    customer.token = await newToken(h, customer);
    assert.equal((await call('GET', '/notices')).status, 404, 'its own went first');
    customer = await newCustomer(h, ['enrichments']);
    assert.equal((await call('GET', '/notices')).status, 404, 'the other went with the scope');
    await put(receiver.url);
    customer = await newCustomer(h, ['enrichments']);
    assert.equal((await call('GET', '/notices')).body.url, receiver.url);
    assert.equal((await call('DELETE', '/notices')).status, 200);
    const isTold = () => receiver.received.some(({ body }) => body.includes(customer.account_id));
    await until('it was told', isTold);
  });
});
