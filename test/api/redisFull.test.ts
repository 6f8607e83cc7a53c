import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type RedisServer, startRedis } from '../../local/redis.js';
import { isRedisUnavailable } from '../../src/redis/connection/unavailable.js';
import { type Receiver, startGate, startReceiver, until } from '../receiver.js';
import { servers } from '../servers.js';
import {
  type Harness,
  newCustomer,
  newToken,
  type RunningApi,
  startApi,
  startHarness,
  tokenFields,
} from '../service.js';

type Customer = Awaited<ReturnType<typeof newCustomer>>;

describe('while Redis is full', () => {
  let dir: string;
  let redis: RedisServer;
  let api: RunningApi;
  let customer: Customer;
  let token: string;

  before(async () => {
    dir = await mkdtemp(join(tmpdir(), 'asset-update-full-'));
    redis = await startRedis({ dir, binary: servers().redisServerBinary });
    api = await startApi({ redisUrl: redis.url });
    customer = await newCustomer(api, ['enrichments', 'push_notifications']);
    token = await newToken(api, customer);
  });
  beforeEach(() => allowBytes(1));
  afterEach(() => allowBytes(0));
  after(async () => {
    await api.close();
    await redis.stop();
    await rm(dir, { recursive: true, force: true });
  });

  const allowBytes = (bytes: number) => api.deps.db.redis.config('SET', 'maxmemory', bytes);
  const event = () => ({ client_token: customer.client_token, platform_id: 'vid-1', segments: ['a'] });
  const publish = (body: unknown) =>
    fetch(`${api.url}/enrichments`, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
  const register = () => {
    const query = new URLSearchParams({
      access_token: token,
      client_token: customer.client_token,
      url: 'http://127.0.0.1:9/hook',
    });
    return fetch(`${api.url}/register_push_notifications?${query}`, { method: 'POST' });
  };
  const mint = () =>
    fetch(`${api.url}/oauth/access_token`, {
      method: 'POST',
      body: new URLSearchParams(tokenFields(customer)),
    });

  const calls: Record<string, [make: () => Promise<Response>, success: number]> = {
    'an event': [() => publish(event()), 202],
    'a batch': [() => publish({ events: [event(), event()] }), 202],
    'a token': [mint, 200],
    'a registration': [register, 200],
  };
  for (const [what, [make, success]] of Object.entries(calls)) {
    it(`${what}: answers 503 with Retry-After, and ${success} once there is room`, async () => {
      const refused = await make();
      const body = (await refused.json()) as { code?: string; error?: string };
      assert.deepEqual([refused.status, body.code ?? body.error], [503, 'temporarily_unavailable']);
      assert.match(String(refused.headers.get('retry-after')), /^[1-9]\d*$/);
      await allowBytes(0);
      assert.equal((await make()).status, success);
    });
  }

  it('does not report a full disk as a bug of the service', () => {
    const said = 'MISCONF Errors writing to the AOF file: No space left on device';
    assert.equal(isRedisUnavailable(new Error(said)), true);
  });
});

describe('A receiver that answers 200 while Redis is full', () => {
  let dir: string;
  let redis: RedisServer;
  let h: Harness;
  let receiver: Receiver;

  before(async () => {
    dir = await mkdtemp(join(tmpdir(), 'asset-update-full-'));
    redis = await startRedis({ dir, binary: servers().redisServerBinary });
    // A lease then lasts for 6 s.
    h = await startHarness({ REDIS_URL: redis.url, MAX_IN_FLIGHT: '2', ATTEMPT_TIMEOUT_SECONDS: '1' });
    await h.startWorker();
    receiver = await startReceiver();
  });
  after(async () => {
    await h.close();
    await receiver.close();
    await redis.stop();
    await rm(dir, { recursive: true, force: true });
  });

  it('gets each notification once, and the next ones as soon as there is room', async () => {
    const client = await h.newClient(receiver.url);
    const gate = startGate();
    receiver.answer = async () => {
      await gate.closed;
      return 200;
    };
    const sent = await Promise.all(['a', 'b', 'c', 'd'].map((asset) => h.publish({ client, asset })));
    await until('two are under way', () => receiver.received.length === 2);
    await h.db.redis.config('SET', 'maxmemory', 1);
    gate.open();
    const stateOf = async ({ id }: { id: string }) => (await h.notification(client, id))?.state;
    await until('they are settled', async () => {
      const states = await Promise.all(sent.map(stateOf));
      return states.filter((state) => state === 'delivered').length === 2;
    });
    await new Promise((resolve) => setTimeout(resolve, h.deps.settings.leaseMs + 1000));
    assert.equal(receiver.received.length, 2);
    await h.db.redis.config('SET', 'maxmemory', 0);
    await until('the others are delivered', async () => {
      const states = await Promise.all(sent.map(stateOf));
      return states.every((state) => state === 'delivered');
    });
    assert.equal(new Set(receiver.received.map(({ headers }) => headers['webhook-id'])).size, 4);
    assert.equal(receiver.received.length, 4);
  });
});
