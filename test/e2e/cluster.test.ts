import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type RedisCluster, startCluster } from '../../local/redisCluster.js';
import { createLogger } from '../../src/log.js';
import { openDb, waitForRedis } from '../../src/redis/connection/db.js';
import { createAccount } from '../../src/redis/records/accounts.js';
import { tokenFields } from '../api/runningApi.js';
import { servers } from '../servers.js';
import { startService } from './service.js';

describe('the service on a Redis Cluster', function () {
  this.timeout(120_000);
  let dir: string;
  let cluster: RedisCluster;

  before(async () => {
    dir = await mkdtemp(join(tmpdir(), 'asset-update-cluster-'));
    cluster = await startCluster({ dir, binary: servers().redisServerBinary, replicasOfEach: 0 });
  });
  after(async () => {
    await cluster?.stop();
    await rm(dir, { recursive: true, force: true });
  });

  it('starts with one of its nodes in REDIS_URL, serves, and ends on its own', async () => {
    const [node] = cluster.nodes;
    const service = await startService({
      REDIS_URL: `redis://127.0.0.1:${node?.server.port}`,
      REDIS_CLUSTER: 'true',
    });
    const db = openDb({ url: cluster.url, prefix: service.prefix, log: createLogger('silent', 'test') });
    await waitForRedis(db, 10_000);
    const account = await createAccount(db, { name: 'A media company' });
    const answer = await fetch(`${service.url}/oauth/access_token`, {
      method: 'POST',
      body: new URLSearchParams(tokenFields(account)),
    });
    db.redis.disconnect();
    assert.equal(answer.status, 200);
    assert.equal(await service.stop(), 0);
    assert.equal(service.said().includes('"level":"error"'), false);
  });
});
