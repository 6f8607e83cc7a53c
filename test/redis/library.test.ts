import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type RedisServer, startRedis } from '../../local/redis.js';
import { library } from '../../src/redis/connection/library.js';
import { isOutOfMemory } from '../../src/redis/connection/unavailable.js';
import { servers } from '../servers.js';
import { closeDeliveryClients, type DeliveryClient, newDeliveryClient, ok } from './deliveryClient.js';

describe('The library of scripts', () => {
  let dir: string;
  let redis: RedisServer;
  let client: DeliveryClient;

  before(async () => {
    dir = await mkdtemp(join(tmpdir(), 'asset-update-library-'));
    redis = await startRedis({ dir, binary: servers().redisServerBinary });
  });
  beforeEach(async () => {
    client = await newDeliveryClient({}, redis.url);
  });
  after(async () => {
    closeDeliveryClients();
    await redis.stop();
    await rm(dir, { recursive: true, force: true });
  });

  it('is loaded again where a server has lost it, by many calls at once', async () => {
    await client.db.redis.call('FUNCTION', 'FLUSH');
    await Promise.all(['a', 'b', 'c'].map((asset) => client.owe(asset)));
    assert.equal((await client.take()).length, 3);
  });

  it('stands beside that of another release', async () => {
    const [release = ''] = /_[0-9a-f]{12}/.exec(library) ?? [];
    await client.db.redis.call('FUNCTION', 'LOAD', library.replaceAll(release, '_another00000'));
    await client.owe('vid');
    assert.equal((await client.attempt({ platformId: 'vid' }, ok)).outcome, 'delivered');
  });

  it('refuses a full Redis’ claims, turns and plans as a whole, and settles', async () => {
    await client.owe('vid');
    await client.owe('next');
    const [taken] = await client.take(1);
    assert.ok(taken);
    const verdicts = [client.verdict(taken, ok)];
    const before = await client.endpoint();
    await client.db.redis.config('SET', 'maxmemory', 1);
    for (const call of [
      () => client.claims([client.event({ platformId: 'other' })]),
      () => client.turn({ verdicts, most: 1 }),
      () => client.plan(),
    ]) {
      await assert.rejects(call, isOutOfMemory);
    }
    assert.deepEqual(await client.endpoint(), before);
    const { settled, taken: more } = await client.turn({ verdicts }, 'settle');
    assert.deepEqual([settled[0]?.outcome, more], ['delivered', []]);
    await client.db.redis.config('SET', 'maxmemory', 0);
    assert.deepEqual(
      (await client.take()).map(({ platformId }) => platformId),
      [taken.platformId === 'vid' ? 'next' : 'vid'],
    );
  });
});
