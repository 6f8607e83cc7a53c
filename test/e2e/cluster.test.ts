import assert from 'node:assert/strict';
import type { RedisCluster } from '../../local/redisCluster.js';
import { createLogger } from '../../src/log.js';
import { openDb, waitForRedis } from '../../src/redis/connection/db.js';
import { createAccount } from '../../src/redis/records/accounts.js';
import { tokenFields } from '../api/runningApi.js';
import { startOwnCluster } from '../ownCluster.js';
import { startService } from './service.js';

describe('the service on a Redis Cluster', function () {
  this.timeout(120_000);
  let cluster: RedisCluster;

  before(async () => {
    cluster = await startOwnCluster();
  });
  after(() => cluster?.stop());

  it('starts with one of its nodes in REDIS_URL, serves, and ends on its own', async () => {
    const [node] = cluster.nodes;
    const service = await startService({
      REDIS_URL: `redis+cluster://127.0.0.1:${node?.server.port}`,
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
