import assert from 'node:assert/strict';
import { oneByOne } from '../../src/api/steps/pace.js';
import { mintAccessToken } from '../../src/redis/records/accessTokens.js';
import { createClient } from '../../src/redis/records/clients.js';
import { startGate, within } from '../receiver.js';
import { opened, openForSuite } from '../servers.js';
import { type Customer, newCustomer, newToken, startHarness } from '../service.js';

const quota = 3;
/** Then another call is allowed. */
const windowMs = 10_000 / quota;

const since = '2026-01-01T00:00:00Z';
const ofRecords = [
  { method: 'GET', path: '/clients' },
  { method: 'GET', path: '/notifications' },
  { method: 'GET', path: '/events/an-1' },
  { method: 'GET', path: '/updates' },
  { method: 'POST', path: '/notifications/recover', body: { since, dry_run: true } },
  { method: 'POST', path: '/notifications/replay', body: { since, dry_run: true } },
];

describe('a rate per account', () => {
  /** Two processes of one installation. */
  const rate = { ACCOUNT_RATE_PER_SECOND: '0.3' };
  const h = openForSuite(() =>
    startHarness(rate, 'api', {
      async lookup(host) {
        asked.add(host);
        return [{ address: '127.0.0.1', family: 4 }];
      },
    }),
  );
  const second = openForSuite(() => startHarness({ ...rate, KEY_PREFIX: h.prefix }, 'api'));
  const freshCustomer = () => newCustomer(h, ['push_notifications', 'enrichments']);
  let customer: Customer;
  beforeEach(async () => {
    customer = await freshCustomer();
  });
  /** Names that were looked up. */
  const asked = new Set<string>();

  const register = (url: string) =>
    customer.call('POST', `/register_push_notifications?url=${encodeURIComponent(url)}`);

  it('is not bounded for an hour because Redis’ clock was set back by that', async () => {
    const list = async () => (await customer.call('GET', '/clients')).status;
    h.skip(3_600_000);
    for (let i = 0; i < quota; i++) await list();
    h.skip(-3_600_000);
    const told = { clientId: customer.client_id, clientSecret: customer.client_secret };
    const mint = async () =>
      (await mintAccessToken(h.db, told, customer.scopes, { ttlSeconds: 60, perSecond: 1 })).outcome;
    // The customer's own token was made a moment ago.
    h.skip(1000);
    assert.equal(await mint(), 'minted');
    h.skip(-3_600_000);
    assert.equal(await mint(), 'minted');
    h.skip(3_599_000);
  });

  it('bounds links by token: one that has used up its own takes those of no other token of the account', async () => {
    // Its rate is not what bounds them.
    const quick = opened(
      await startHarness({ ACCOUNT_RATE_PER_SECOND: '10000', KEY_PREFIX: h.prefix }, 'api'),
    );
    const link = async (token: string) => {
      customer.token = token;
      return (await customer.call('POST', '/console_sessions', undefined, quick)).status;
    };
    const [first, other] = [customer.token, await newToken(h, customer)];
    const statuses: number[] = [];
    do statuses.push(await link(first));
    while (statuses.length < 60 && statuses.at(-1) !== 429);
    assert.equal(statuses.at(-1), 429);
    assert.equal(await link(other), 200);
  });

  it('bounds calls that read many records, over all processes, with RateLimit fields on each answer, then 429 with Retry-After', async () => {
    await within(windowMs, async () => {
      customer = await freshCustomer();
      const { token } = customer;
      customer.token = 'none';
      for (let i = 0; i <= quota; i++) await customer.call('GET', '/clients');
      customer.token = token;
      for (let left = quota - 1; left >= 0; left--) {
        const answer = await customer.call('GET', '/clients', undefined, left % 2 ? h : second);
        assert.equal(answer.status, 200);
        assert.equal(answer.headers.get('ratelimit-policy'), `"records";q=${quota};w=10`);
        assert.match(answer.headers.get('ratelimit') ?? '', new RegExp(`^"records";r=${left};t=([1-9]|10)$`));
      }
      for (const { method, path, body } of ofRecords) {
        const refused = await customer.call(method, path, body);
        assert.deepEqual([refused.status, refused.body.code], [429, 'too_many_requests'], path);
        const [, seconds] = /^"records";r=0;t=(\d+)$/.exec(refused.headers.get('ratelimit') ?? '') ?? [];
        assert.equal(refused.headers.get('retry-after'), seconds, path);
        assert.equal(refused.headers.get('ratelimit-policy'), `"records";q=${quota};w=10`);
      }
      assert.equal((await (await newCustomer(h)).call('GET', '/clients')).status, 200, 'another account');
      assert.equal((await register('https://apart.example/')).status, 200, 'another kind');
    });
  });

  for (const { method, path, body } of [
    { method: 'GET', path: '/events/an-1' },
    { method: 'GET', path: '/notifications?platform_id=nosuch' },
    { method: 'GET', path: '/notifications?state=cancelled' },
    { method: 'POST', path: '/notifications/replay', body: { since, dry_run: true } },
  ])
    it(`counts what a search reads, for all processes: ${method} ${path}`, async () => {
      const read = Array.from({ length: 1000 * quota }, (_, i) => [i, `msg_${i}`]).flat();
      await within(windowMs, async () => {
        customer = await freshCustomer();
        const { notifications, feed } = h.db.client(customer.client_token);
        await h.db.redis.zadd(notifications, ...read);
        await h.db.redis.zadd(
          feed,
          ...read.map((one) => (typeof one === 'number' ? Date.now() * 1000 - one : one)),
        );
        assert.ok([200, 404].includes((await customer.call(method, path, body)).status));
        const later = await customer.call('GET', '/clients', undefined, second);
        assert.equal(later.status, 429);
        // The search itself is a call too.
        assert.ok(
          Number(later.headers.get('retry-after')) > 10 / quota,
          'what is above the rate is made up for',
        );
      });
    });

  it('bounds calls that look up a name: none of them looks up a name beyond it', async () => {
    await within(windowMs, async () => {
      customer = await freshCustomer();
      asked.clear();
      const statuses: number[] = [];
      for (let i = 0; i < 2 * quota; i++) {
        const client = await createClient(h.db, { accountId: customer.account_id, name: 'Site' });
        customer.client_token = client.clientToken;
        const url = `https://host-${i}.example/`;
        const answer = await [
          () => customer.call('POST', `/push_notifications/test?url=${url}`),
          () => register(url),
          () => customer.call('PUT', '/notices', { url }),
        ][i % 3]?.();
        statuses.push(answer?.status ?? 0);
        assert.equal(answer?.headers.get('ratelimit-policy'), `"names";q=${quota};w=10`);
      }
      assert.deepEqual(statuses, [...Array(quota).fill(200), ...Array(quota).fill(429)]);
      assert.equal(asked.size, quota);
    });
  });
});

describe('calls of an account that read many records', () => {
  it('wait no longer than that for one that takes long, and never pass it', async () => {
    const inTurn = oneByOne({ longestTurnMs: 500 });
    const [first, ...order] = [startGate(), 'begun'];
    const take = (work: () => Promise<unknown>) => inTurn({ state: {} as never }, 'a', work);
    const long = take(() => first.closed.then(() => order.push('first')));
    await assert.rejects(
      take(async () => order.push('second')),
      /wait for their turn/,
    );
    const third = take(async () => order.push('third'));
    first.open();
    await Promise.all([long, third]);
    assert.deepEqual(order, ['begun', 'first', 'third']);
  });

  const h = openForSuite(() => startHarness({ ACCOUNT_RATE_PER_SECOND: '10000', longestTurnMs: 0 }, 'api'));

  for (const { method, path, body } of ofRecords) {
    it(`wait for their turn, and are refused if that takes too long: ${method} ${path}`, async () => {
      const [customer, other] = [await newCustomer(h), await newCustomer(h)];
      const [theirs, ...answers] = await Promise.all(
        [other, ...Array(8).fill(customer)].map((one: Customer) => one.call(method, path, body)),
      );
      assert.notEqual(theirs?.status, 429, 'another account');
      const refused = answers.filter(({ status }) => status === 429);
      assert.ok(refused.length > 0 && refused.length < answers.length, `${refused.length} refused`);
      assert.equal(refused[0]?.headers.get('ratelimit-policy'), '"turns";q=1;w=1');
      assert.match(String(refused[0]?.body.msg), /wait for their turn/);
    });
  }
});
