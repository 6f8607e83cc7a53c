import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type RedisServer, startRedis } from '../../local/redis.js';
import { Engine } from '../../src/delivery/engine.js';
import { setClient } from '../../src/redis/records/clients.js';
import { getEndpoint, pauseEndpoint, unpauseEndpoint } from '../../src/redis/records/endpoint.js';
import { servers } from '../servers.js';
import { type Harness, type Receiver, startHarness, startReceiver, until } from './harness.js';

describe('A drain asks Redis for no more than it delivers', () => {
  let dir: string;
  let redis: RedisServer;
  let h: Harness;
  let receiver: Receiver;
  let client: string;

  before(async () => {
    dir = await mkdtemp(join(tmpdir(), 'asset-update-drains-'));
    redis = await startRedis({ dir, binary: servers().redisServerBinary });
    h = await startHarness({ REDIS_URL: redis.url });
    await h.startWorker();
    receiver = await startReceiver();
  });
  after(async () => {
    await receiver.close();
    await h.close();
    await redis.stop();
    await rm(dir, { recursive: true, force: true });
  });
  beforeEach(async () => {
    receiver.received.length = 0;
    client = await h.newClient(receiver.url);
    await pauseEndpoint(h.db, client);
  });

  /** @returns what Redis was asked from the first plan on until nothing was owed: scripts, and commands in them */
  async function drained(assets: number): Promise<{ scripts: number; commands: number }> {
    await Promise.all(
      Array.from({ length: assets }, (_, i) =>
        h.publish({ client, asset: `vid-${i}`, priority: 'backfill' }),
      ),
    );
    await until('all are owed', async () => (await getEndpoint(h.db, client)).owed === assets);
    await until('their workflow has ended', () => noneRuns('enrichment'));
    await h.db.redis.config('RESETSTAT');
    await unpauseEndpoint(h.db, client);
    await h.wake(client);
    await until('all have arrived', () => receiver.received.length === assets);
    await until('its catch-up has ended', () => noneRuns('catch-up'));
    const counts = { scripts: 0, commands: 0 };
    // Commands of this test itself are left out.
    const own = /^(hgetall|hlen|zrangebyscore|lindex|info|config\|resetstat|ping)$/;
    for (const [, name = '', calls] of (await h.db.redis.info('commandstats')).matchAll(
      /cmdstat_([^:]+):calls=(\d+)/g,
    )) {
      if (/^eval(sha)?$/.test(name)) counts.scripts += Number(calls);
      else if (!own.test(name)) counts.commands += Number(calls);
    }
    assert.equal(receiver.received.length, assets);
    return counts;
  }

  async function noneRuns(type: string): Promise<boolean> {
    const query = `WorkflowType = '${type}' AND ExecutionStatus = 'Running' AND TaskQueue = '${h.taskQueue}'`;
    for await (const _ of h.temporal.workflow.list({ query })) return false;
    return true;
  }

  it('with one place: one script for each delivery, which settles it and takes the next, and one plan for many', async () => {
    await setClient(h.db, client, { maxInFlight: 1 });
    const { scripts } = await drained(60);
    assert.ok(scripts <= 60 + 15, `${scripts} scripts`);
  });

  it('with a rate: it does not ask repeatedly for assets that may not be sent yet', async () => {
    await setClient(h.db, client, { maxPerSecond: 50 });
    const { scripts, commands } = await drained(60);

    assert.ok(scripts <= 2 * 60 + 15, `${scripts} scripts`);
    assert.ok(commands <= 60 * 45, `${commands} commands`);
  });
});

describe('The full queue of a process', () => {
  it('refuses events, but never works of drains, which would ask again immediately', async () => {
    const woken: string[] = [];
    const never = new Promise<never>(() => undefined);
    const engine = new Engine({
      db: { clockOffsetMs: () => 0, client: () => ({ base: '' }), redis: { call: () => never } },
      delivery: { maxInFlight: 16 },
      catchUps: { wake: async (token: string) => woken.push(token), signal: () => undefined },
    } as unknown as ConstructorParameters<typeof Engine>[0]);
    const one = (i: number) => ({
      clientToken: `SITE${i % 10}`,
      platformId: `vid-${i}`,
      notificationId: `msg-${i}`,
      priority: 'backfill' as const,
    });
    for (let i = 0; i < 20_000; i++) void engine.begin(one(i));
    const event = await engine.begin(one(20_001));
    assert.ok(event.state === 'waiting' && event.reason === 'queue_full');
    assert.deepEqual(woken, ['SITE1']);
    let isEnded = false;
    for (let i = 30_000; i < 50_000; i++) {
      void engine.join(one(i), 'drain').then(() => {
        isEnded = true;
      });
    }
    await new Promise(setImmediate);
    assert.equal(isEnded, false);
    assert.equal(engine.queued(), 40_000);
  });
});
