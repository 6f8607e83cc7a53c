import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type RedisServer, startRedis } from '../../local/redis.js';
import { setClient } from '../../src/redis/records/clients.js';
import { getEndpoint, setPaused } from '../../src/redis/records/endpoint.js';
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
    await setPaused(h.db, client, true);
  });

  /** @returns how many scripts Redis ran from the first plan on until nothing was owed */
  async function drained(assets: number): Promise<number> {
    await Promise.all(
      Array.from({ length: assets }, (_, i) =>
        h.publish({ client, asset: `vid-${i}`, priority: 'backfill' }),
      ),
    );
    await until('all are owed', async () => (await getEndpoint(h.db, client)).owed === assets);
    await until('their workflow has ended', () => noneRuns('enrichment'));
    await h.db.redis.config('RESETSTAT');
    await setPaused(h.db, client, false);
    await h.wake(client);
    await until('all have arrived', () => receiver.received.length === assets);
    await until('its catch-up has ended', () => noneRuns('catch-up'));
    assert.equal(receiver.received.length, assets);
    const { calls } =
      /cmdstat_fcall:calls=(?<calls>\d+)/.exec(await h.db.redis.info('commandstats'))?.groups ?? {};
    return Number(calls);
  }

  async function noneRuns(type: string): Promise<boolean> {
    const query = `WorkflowType = '${type}' AND ExecutionStatus = 'Running' AND TaskQueue = '${h.taskQueue}'`;
    for await (const _ of h.temporal.workflow.list({ query })) return false;
    return true;
  }

  it('with one place: one script settles a delivery and takes the next', async () => {
    await setClient(h.db, client, { maxInFlight: 1 });
    const scripts = await drained(60);
    assert.ok(scripts <= 1.5 * 60, `${scripts} scripts`);
  });

  it('with a rate: it does not ask repeatedly for assets that may not be sent yet', async () => {
    await setClient(h.db, client, { maxPerSecond: 50 });
    const scripts = await drained(60);
    assert.ok(scripts <= 2 * 60 + 15, `${scripts} scripts`);
  });
});
