/** A store that became a replica: a failover that the address of Redis does not follow at once, or not at all. */
import assert from 'node:assert/strict';
import { Redis } from 'ioredis';
import { startOwnRedis } from '../ownRedis.js';
import { startService } from '../program.js';
import { startProxy } from '../proxy.js';
import { newPublisher } from '../publisher.js';
import { until } from '../receiver.js';
import { opened, uniquePrefix } from '../servers.js';
import { callApi } from '../service.js';

describe('A Redis that became read-only', () => {
  it('is told as that alone, loses no connection for it, and is left for the primary once a new connection leads there', async () => {
    const [demoted, primary] = [opened(await startOwnRedis()), opened(await startOwnRedis())];
    const [old, other] = [opened(new Redis(demoted.url)), opened(new Redis(primary.url))];
    await other.replicaof('127.0.0.1', String(demoted.port));
    const proxy = opened(await startProxy(demoted.url));
    const service = opened(
      await startService({ REDIS_URL: `redis://127.0.0.1:${proxy.port}`, KEY_PREFIX: uniquePrefix() }),
    );
    const publisher = await newPublisher(service, demoted.url);
    const client = await publisher.newClient();
    await publisher.register(client, 'http://127.0.0.1:9/');
    await until('the copy is complete', async () => (await other.dbsize()) === (await old.dbsize()));
    const failed = async () => {
      const text = await service.metrics();
      const rows = [...text.matchAll(/^asset_update_redis_errors_total\{error="(\w+)"\} (\d+)/gm)];
      return new Map(rows.map(([, reason, count]) => [reason, Number(count)]));
    };
    const connections = async () => Number(/received:(\d+)/.exec(await old.info('stats'))?.[1]);
    const publish = () =>
      callApi(publisher.token, 'POST', `${service.url}/enrichments`, {
        client_token: client,
        platform_id: 'vid',
        segments: ['iab:17'],
      });
    const before = await failed();
    const had = await connections();

    await other.replicaof('NO', 'ONE');
    await old.replicaof('127.0.0.1', '1');
    await until('50 commands were refused', async () => {
      await Promise.all(Array.from({ length: 10 }, publish));
      return ((await failed()).get('replica') ?? 0) > 50;
    });
    const now = await failed();
    const others = [...now].filter(([reason, count]) => reason !== 'replica' && count !== before.get(reason));
    assert.deepEqual(others, []);
    // A look every half a second, and the check of the store.
    const made = (await connections()) - had;
    assert.ok(made < 40, `${made} connections`);

    proxy.lead(primary.url);
    await until('it accepts again', async () => (await publish()).status === 202);
    const lines = service.said().trim().split('\n');
    for (const line of lines) assert.doesNotThrow(() => JSON.parse(line), line);
    assert.doesNotMatch(service.said(), /does not answer|MaxListeners/);
  }).timeout(60_000);
});
