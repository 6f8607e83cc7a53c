import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { isRedisUnavailable } from '../../src/redis/connection/unavailable.js';
import { startOwnRedis } from '../ownRedis.js';
import { startService, whileStopped } from '../program.js';
import { startProxy } from '../proxy.js';
import { newPublisher } from '../publisher.js';
import { succeeds, until, within } from '../receiver.js';
import { forSuite, forTest, opened, servers, useOpened } from '../servers.js';
import { type Customer, type Json, newCustomer, startHarness, tokenFields } from '../service.js';

const url = 'http://127.0.0.1:9/hook';
const scopes = ['enrichments', 'push_notifications'];
const eventOf = ({ client_token }: Customer, more = {}) => ({
  client_token,
  platform_id: 'vid-1',
  segments: ['a'],
  ...more,
});

describe('While Redis', () => {
  const ofSuite = useOpened();
  const redis = forSuite(async () => ofSuite(await startOwnRedis()));
  const line = forSuite(async () => ofSuite(await startProxy(redis.url)));
  /** Beside the line. */
  const direct = forSuite(() => ofSuite(new Redis(redis.url)));
  const settings = () => ({ REDIS_URL: line.url, ACCOUNT_RATE_PER_SECOND: '100' });
  const h = forSuite(async () => ofSuite(await startHarness(settings(), 'api')));
  const customer = forTest(() => newCustomer(h, scopes));

  const post = (path: string, more: Record<string, string> = {}) =>
    ask(path, { method: 'POST', body: new URLSearchParams({ ...tokenFields(customer), ...more }) });
  const ask = async (path: string, init?: RequestInit) => {
    const answer = await fetch(h.url + path, init);
    return { status: answer.status, headers: answer.headers, body: (await answer.json()) as Json };
  };
  const isReady = (status: number) =>
    until(`/readyz: ${status}`, async () => (await fetch(`${h.url}/readyz`)).status === status);
  const writes: Record<string, [call: () => ReturnType<typeof post>, success: number]> = {
    'an event': [() => customer.call('POST', '/enrichments', eventOf(customer)), 202],
    'a batch': [() => customer.call('POST', '/enrichments', { events: [eventOf(customer)] }), 202],
    'a token': [() => post('/oauth/access_token'), 200],
    'a registration': [() => customer.call('POST', `/register_push_notifications?url=${url}`), 200],
  };
  const all: typeof writes = {
    ...writes,
    'the addresses': [() => ask('/source_addresses'), 200],
    'a list': [() => customer.call('GET', '/clients'), 200],
    'a revocation': [() => post('/oauth/revoke', { token: 'any' }), 200],
  };

  const bound = (bytes: number) => direct.config('SET', 'maxmemory', bytes);
  const ways: [way: string, begin: () => unknown, end: () => unknown, calls: typeof writes][] = [
    ['is full', () => bound(1), () => bound(0), writes],
    ['does not answer', () => line.hang(), () => line.release(), all],
    [
      'is gone',
      async () => {
        line.lead('redis://127.0.0.1:1');
        await direct.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
      },
      () => line.lead(redis.url),
      all,
    ],
  ];
  for (const [way, begin, end, calls] of ways) {
    it(`${way}: ${Object.keys(calls).join(', ')}: 503 with Retry-After, and none once it is back`, async () => {
      await begin();
      const answers = await Promise.all(Object.values(calls).map(([call]) => call()));
      await isReady(way === 'is full' ? 200 : 503);
      await end();
      for (const [i, { status, headers, body }] of answers.entries()) {
        const what = Object.keys(calls)[i];
        assert.deepEqual([status, body.code ?? body.error], [503, 'temporarily_unavailable'], what);
        assert.match(String(headers.get('retry-after')), /^[1-9]\d*$/, what);
      }
      await isReady(200);
      for (const [what, [call, success]] of Object.entries(calls))
        assert.equal((await call()).status, success, what);
    });
  }

  it('has a full disk, or its cluster does not say its slots in time, it is no bug of the service', () => {
    for (const said of ['MISCONF Errors writing to the AOF file: No space left on device', 'timeout'])
      assert.equal(isRedisUnavailable(new Error(said)), true, said);
  });
});

describe('While the Redis of a process', () => {
  const ofSuite = useOpened();
  const redis = forSuite(async () => ofSuite(await startOwnRedis()));
  const service = forSuite(async () => ofSuite(await startService({ REDIS_URL: redis.url }, 'api')));

  it('lets writes wait and answers reads, it is not ready, for one reason, on connections old and new', async () => {
    const direct = opened(new Redis(redis.url));
    const said = async () => {
      const { status, redis, reasons } = (await (await fetch(`${service.url}/readyz`)).json()) as Json;
      return JSON.stringify([status, redis, reasons]);
    };
    const connected = async () =>
      Number(/total_connections_received:(\d+)/.exec(await direct.info('stats'))?.[1]);
    const notReady = '["not ready",false,["timeout"]]';
    await direct.call('CLIENT', 'PAUSE', 600_000, 'WRITE');
    await until('the reason is known', async () => (await said()) === notReady);
    const before = await connected();
    const seen = new Set<string>();
    await until('connections were made again, twice', async () => {
      seen.add(await said());
      return (await connected()) > before + 6;
    });
    assert.deepEqual([...seen], [notReady]);
    await direct.call('CLIENT', 'UNPAUSE');
    await until('it is ready', async () => (await said()) === '["ready",true,null]');
  });

  it('is frozen, an event whose token holds meanwhile is answered in the same 2 s', async () => {
    const publisher = await newPublisher(service, redis.url);
    const client = await publisher.newClient();
    const publish = () => publisher.publish(client, 'vid-1').then(String, String);
    // A machine that stands still is late once; what is looked up twice is late each time.
    await within(0, async () => {
      await until('it is taken', () => succeeds(publisher.publish(client, 'vid-1')));
      await whileStopped(redis.pid, async () => {
        const events = Array.from({ length: 10 }, async (_, i) => {
          await sleep(i * 100);
          return await Promise.race([publish(), sleep(2600, 'later')]);
        });
        for (const said of await Promise.all(events)) assert.match(said, /temporarily_unavailable/);
      });
    });
  });
});

describe('While Temporal', () => {
  it('does not answer: events and calls that send something are answered as usual, and the process is ready', async () => {
    const line = opened(await startProxy(`tcp://${servers().temporalAddress}`));
    const h = opened(await startHarness({ TEMPORAL_ADDRESS: new URL(line.url).host }, 'api'));
    const customer = await newCustomer(h, scopes);
    await customer.register(url);
    line.hang();
    const call: Customer['call'] = async (...asked) => {
      const begunAt = Date.now();
      const answer = await customer.call(...asked);
      // One that waits for Temporal takes 9 s or more.
      assert.ok(Date.now() - begunAt < 8000, asked[1]);
      return answer;
    };
    const event = eventOf(customer, { event_id: 'an-1' });
    const { status, body } = await call('POST', '/enrichments', event);
    assert.deepEqual([status, body.notification], [202, 'queued']);
    const silent = eventOf(customer, { platform_id: 'vid-2', notify: false });
    const events = [event, silent, eventOf(customer, { platform_id: '' })];
    const batch = await call('POST', '/enrichments', { events });
    const results = batch.body.results as Record<string, unknown>[];
    assert.equal(results[0]?.notification_id, body.notification_id, 'a repeated event');
    const answers = results.map(({ notification, code }) => notification ?? code);
    assert.deepEqual(answers, ['queued', 'none', 'invalid_event']);
    const since = '2026-01-01T00:00:00Z';
    for (const [status, path, asked] of [
      [202, `/notifications/${body.notification_id}/redeliver`, undefined],
      [202, '/push_notifications/resume', undefined],
      [200, '/notifications/recover', { since }],
      [200, '/notifications/replay', { since }],
    ] as const) {
      assert.equal((await call('POST', path, asked)).status, status, path);
    }
    const ready = await fetch(`${h.url}/readyz`);
    assert.deepEqual(
      [ready.status, await ready.json()],
      [200, { status: 'ready', redis: true, temporal: false }],
    );
  });
});
