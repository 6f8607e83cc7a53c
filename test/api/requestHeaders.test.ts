import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { listCalls } from '../../src/redis/records/audit.js';
import { readStateChanges } from '../../src/redis/records/endpoint.js';
import { changeRegistration, register, resetRegistration } from '../../src/redis/records/registrations.js';
import { createSecretBox } from '../../src/redis/records/secretBox.js';
import { reencryptSigningSecrets } from '../../src/redis/records/secrets.js';
import { keysMatching } from '../keysMatching.js';
import { startReceiver, within } from '../receiver.js';
import { forTest, openForSuite } from '../servers.js';
import { type Customer, newCustomer, patient, startHarness } from '../service.js';

const older = { id: 'k1', key: randomBytes(32) };
const newer = { id: 'k2', key: randomBytes(32) };
const secretKeys = [older, newer].map(({ id, key }) => `${id}:${key.toString('base64')}`).join(',');
const secret = 'gate-7f3a91';

describe('PUT /push_notifications/headers', () => {
  const h = openForSuite(() => startHarness({ ...patient, SECRETS_KEY: secretKeys }));
  const receiver = forTest(() => startReceiver());
  const customer = forTest(() => newCustomer(h));

  const call: Customer['call'] = (...asked) => customer.call(...asked);
  const put = (body: unknown) => call('PUT', '/push_notifications/headers', body);
  const names = async () => (await call('GET', '/push_notifications/headers')).body.header_names;
  const arrived = () => receiver.received;
  const keys = () => h.db.client(customer.client_token);
  const publish = async (asset: string) => {
    const { id } = await h.publish({ client: customer.client_token, asset });
    return h.attempted(customer.client_token, id);
  };

  it('sends the headers with each later notification, in addition to those of the service, and to no other URL', async () => {
    const set = await put({ headers: { 'X-Gateway-Key': 'open sesame', Authorization: `Bearer ${secret}` } });
    assert.deepEqual([set.status, set.body], [200, { header_names: ['authorization', 'x-gateway-key'] }]);
    await h.registerUrl(customer.client_token, receiver.url);
    await publish('a');
    const [{ headers, rawHeaders: raw } = assert.fail()] = arrived();
    assert.deepEqual([headers.authorization, headers['x-gateway-key']], [`Bearer ${secret}`, 'open sesame']);
    assert.equal(headers['webhook-client-token'], customer.client_token);
    assert.equal(new Set(raw.filter((_, i) => i % 2 === 0)).size, raw.length / 2, 'each once');

    await resetRegistration(h.db, customer.client_token);
    await h.registerUrl(customer.client_token, `${receiver.url}-2`);
    await publish('b');
    assert.equal(arrived()[1]?.headers.authorization, undefined);
    const { body } = await call('GET', '/push_notifications/headers');
    assert.deepEqual(body, { header_names: [], left_behind: ['authorization', 'x-gateway-key'] });
    assert.deepEqual((await put({ headers: { apikey: '1' } })).body, { header_names: ['apikey'] });
    await publish('c');
    assert.deepEqual([arrived()[2]?.headers.authorization, arrived()[2]?.headers.apikey], [undefined, '1']);
    await put({ headers: {} });
    await publish('d');
    assert.deepEqual([arrived()[3]?.headers.apikey, await names()], [undefined, []]);
  });

  it('sends the headers with a test and a check of a caller who may set them, and their answers do not show the values', async () => {
    await put({ headers: { Authorization: `Bearer ${secret}` } });
    for (const what of ['test', 'check']) {
      await customer.forgetSends();
      const query = new URLSearchParams({ url: receiver.url });
      const { status, text } = await call('POST', `/push_notifications/${what}?${query}`);
      assert.equal(status, 200, text);
      assert.ok(!text.includes(secret));
      assert.match(text, /"authorization":"\*\*\*"/);
    }
    assert.equal(arrived().length, 6);
    for (const { headers } of arrived()) assert.equal(headers.authorization, `Bearer ${secret}`);
    await customer.forgetSends();
    await h.registerUrl(customer.client_token, receiver.url);
    for (const query of ['', `?url=${receiver.url}`, `?url=${receiver.url}-2`])
      await call('POST', `/push_notifications/test${query}`);
    const sent = arrived().map(({ headers }) => headers.authorization !== undefined);
    assert.deepEqual(sent.slice(-3), [true, true, true]);
  });

  it('sends the headers that waited to the URL of a caller who may set them, also if another token’s call without an answer had stored it', async () => {
    const owner = await newCustomer(h, ['push_notifications', 'signing_secrets']);
    const headers = { Authorization: `Bearer ${secret}` };
    assert.equal((await owner.call('PUT', '/push_notifications/headers', { headers })).status, 200);
    const box = createSecretBox([older, newer]);
    await register(h.db, box, owner.client_token, receiver.url);
    h.skip(60_000);
    await owner.register(receiver.url);
    const { id } = await h.publish({ client: owner.client_token, asset: 'a' });
    await h.attempted(owner.client_token, id);
    assert.equal(arrived()[0]?.headers.authorization, `Bearer ${secret}`);
  });

  it('leaves the headers behind with a URL that an operator changes, and sends them again once it is back', async () => {
    const [first, next] = [receiver.url, `${receiver.url}-2`];
    await h.registerUrl(customer.client_token, first);
    await put({ headers: { Authorization: `Bearer ${secret}` } });
    const change = (url: string) => changeRegistration(h.db, customer.client_token, url);
    const said = (previous_url: string, url: string, left: string[] = [], headers_back: string[] = []) => {
      return { previous_url, url, headers_left_behind: left, headers_back };
    };
    assert.deepEqual(await change(next), said(first, next, ['authorization']));
    await publish('a');
    assert.deepEqual(await change(`${receiver.url}-3`), said(next, `${receiver.url}-3`));
    await publish('b');
    assert.deepEqual(await change(first), said(`${receiver.url}-3`, first, [], ['authorization']));
    await publish('c');
    const sent = arrived().map(({ headers }) => headers.authorization);
    assert.deepEqual(sent, [undefined, undefined, `Bearer ${secret}`]);
    await resetRegistration(h.db, customer.client_token);
    await put({ headers: {} });
    await h.registerUrl(customer.client_token, first);
    await publish('d');
    assert.equal(arrived().at(-1)?.headers.authorization, undefined, 'removed, wherever they were');
  });

  it('hides the values in an attempt’s record if the receiver’s error page shows them', async () => {
    await put({ headers: { Authorization: `Bearer ${secret}` } });
    await h.registerUrl(customer.client_token, receiver.url);
    receiver.answer = ({ headers }) => ({ status: 403, body: `denied: ${headers.authorization}` });
    const record = await publish('a');
    assert.equal(record.attempts[0]?.response_excerpt, 'denied: ***');
    const { text } = await call('GET', `/notifications/${record.notificationId}`);
    assert.match(text, /denied: \*\*\*/);
  });

  it('stores the values encrypted with the signing secret, and reencrypts them with it', async () => {
    await put({ headers: { Authorization: `Bearer ${secret}` } });
    const { redis } = h.db;
    const field = 'waiting:authorization';
    const sealed = await redis.hget(keys().signingSecrets, field);
    assert.match(sealed ?? '', /^k1:/);
    for (const key of await keysMatching(h.db, `${keys().base}*`)) {
      assert.ok(!(await redis.dumpBuffer(key))?.includes(secret), key);
    }
    await reencryptSigningSecrets(h.db, createSecretBox([newer, older]));
    assert.match((await redis.hget(keys().signingSecrets, field)) ?? '', /^k2:/);
    await h.registerUrl(customer.client_token, receiver.url);
    await publish('a');
    assert.equal(arrived()[0]?.headers.authorization, `Bearer ${secret}`);
  });

  it('changes nothing of the registration, and the audit has only the names', async () => {
    await h.registerUrl(customer.client_token, receiver.url);
    const look = async () => [
      { ...(await call('GET', '/push_notifications')).body, delivered_until: 'now' },
      await readStateChanges(h.db, customer.client_token),
    ];
    const before = await look();
    await put({ headers: { Authorization: `Bearer ${secret}` } });
    assert.deepEqual(await look(), before);
    const calls = await listCalls(h.db, [customer.account_id]);
    const [done, ...more] = calls.filter(({ clientToken }) => clientToken === customer.client_token);
    assert.deepEqual([done?.what, done?.about], ['request headers set', { header_names: ['authorization'] }]);
    assert.deepEqual(more, []);
    assert.ok(!JSON.stringify(calls).includes(secret));
  });

  describe('refuses, changes nothing, and shows no value', () => {
    const many = Object.fromEntries([1, 2, 3, 4, 5, 6].map((n) => [`X-${n}`, secret]));
    const cases: Record<string, [body: unknown, says: RegExp]> = {
      'six headers': [{ headers: many }, /At most 5/],
      'one that the service sets': [{ headers: { 'Webhook-Id': secret } }, /Webhook-Id is reserved for/],
      'the same name twice': [{ headers: { 'X-Key': secret, 'x-key': secret } }, /x-key occurs twice/],
      'a name with a line end': [{ headers: { 'X-Key\r\nX-Other': secret } }, /a name begins/],
      'a name that records leave out': [`{"headers": {"__proto__": "${secret}"}}`, /headers: a name begins/],
      'a long name': [{ headers: { [`X-${'k'.repeat(63)}`]: secret } }, /a name begins/],
      'a line end': [{ headers: { 'X-Key': `${secret}\r\nX-Other: 1` } }, /X-Key: it must be visible ASCII/],
      'a character beyond ASCII': [{ headers: { 'X-Key': `${secret}é` } }, /visible ASCII/],
      'an empty value': [{ headers: { 'X-Key': '' } }, /visible ASCII/],
      'a long value': [{ headers: { 'X-Key': secret.padEnd(2049, 'x') } }, /X-Key: .*2048/],
      'something else': [{ headers: {}, sensitive: [] }, /sensitive/],
      'no body': [undefined, /headers: /],
    };
    for (const [name, [body, says]] of Object.entries(cases)) {
      it(name, async () => {
        const refused = await put(body);
        assert.deepEqual([refused.status, refused.body.code], [400, 'invalid_request'], refused.text);
        assert.match(String(refused.body.msg), says);
        assert.ok(!refused.text.includes(secret));
        assert.deepEqual(await names(), []);
      });
    }
  });

  it('accepts and sends the longest values that it documents', async () => {
    const value = 'x'.repeat(2048);
    const headers = Object.fromEntries([1, 2, 3, 4, 5].map((n) => [`X-${n}`, value]));
    assert.equal((await put({ headers })).status, 200);
    await h.registerUrl(customer.client_token, receiver.url);
    assert.equal((await publish('a')).state, 'delivered');
    assert.equal(arrived()[0]?.headers['x-5'], value);
  });

  it('is limited with the quiet period, not with what sends something, and the refusal says so', async () => {
    const quiet = (seconds: number) => call('PUT', '/push_notifications/quiet_period', { seconds });
    await within(5_000, async () => {
      await customer.forgetSends();
      const statuses: number[] = [];
      for (let i = 0; i < 4; i++)
        statuses.push((await put({ headers: i === 0 ? [] : {} })).status, (await quiet(i)).status);
      assert.deepEqual(statuses, Array(8).fill(200));
      for (const refused of [await quiet(9), await put({ headers: {} })]) {
        assert.equal(refused.status, 429);
        assert.match(String(refused.body.msg), /for this client that set its request headers or its quiet/);
        assert.equal(refused.headers.get('ratelimit-policy'), '"settings";q=8;w=40');
      }
    });
    const test = await call('POST', `/push_notifications/test?url=${encodeURIComponent(receiver.url)}`);
    assert.equal(test.status, 200);
  });
});
