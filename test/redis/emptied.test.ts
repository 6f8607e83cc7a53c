import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { Redis } from 'ioredis';
import { openCli } from '../operator/cli.js';
import { startOwnRedis } from '../ownRedis.js';
import { startService } from '../program.js';
import { until } from '../receiver.js';
import { forSuite, useOpened } from '../servers.js';
import type { Json } from '../service.js';

describe('A store that has lost its data under a running service', () => {
  const ofSuite = useOpened();
  const redis = forSuite(async () => ofSuite(await startOwnRedis()));
  const direct = forSuite(() => ofSuite(new Redis(redis.url)));
  const service = forSuite(async () => ofSuite(await startService({ REDIS_URL: redis.url })));
  const cli = forSuite(() =>
    openCli({ REDIS_URL: redis.url, KEY_PREFIX: service.prefix, TASK_QUEUE: service.taskQueue }),
  );

  const token = () => fetch(`${service.url}/oauth/access_token`, { method: 'POST' });
  const stranger = new URLSearchParams({
    grant_type: 'none',
    client_id: randomUUID(),
    client_secret: 'none',
    scope: 'enrichments',
  });
  const refusedToken = async () => {
    const asked = { method: 'POST', body: stranger };
    return (await fetch(`${service.url}/oauth/access_token`, asked)).status;
  };
  const refusedCall = async () => {
    const headers = { authorization: `Bearer ${'x'.repeat(43)}` };
    return (await fetch(`${service.url}/clients`, { headers })).status;
  };

  it('accepts nothing, says so everywhere, in processes that start later too, until an operator says that it may be empty', async () => {
    assert.equal((await token()).status, 400);
    await assert.rejects(cli.json('store', 'accept-empty'), /has not lost its data/);
    assert.deepEqual(await Promise.all([refusedToken(), refusedCall()]), [401, 401]);
    await direct.flushall();
    assert.deepEqual(await Promise.all([refusedToken(), refusedCall()]), [503, 503], 'at once');
    await until('calls are refused', async () => (await token()).status === 503);
    await service.says(/"level":50,.*"reason":"emptied".*disaster\.md.*The store has lost its data/);
    // Calls within a second share one check.
    await until('it is not ready', async () => {
      const ready = await fetch(`${service.url}/readyz`);
      return ready.status === 503 && `${((await ready.json()) as Json).reasons}` === 'emptied';
    });
    const metrics = await service.metrics();
    assert.match(metrics, /^asset_update_redis_data_lost 1$/m);
    assert.match((await cli.run(['status'])).stdout, /^It is us\. The store has lost its data/);
    const { stdout: examined } = await cli.run(['doctor']);
    assert.match(examined, /^ {2}redis data: docs\/guides\/disaster\.md#loss-of-a-store/m);
    assert.deepEqual(await direct.keys('*{SITE*'), []);
    await cli.json('store', 'accept-empty');
    await until('it serves', async () => (await token()).status === 400);
    assert.match((await cli.run(['audit'])).stdout, /store accept-empty/);
    const { stdout } = await cli.run(['status']);
    assert.doesNotMatch(stdout, /lost its data/);
    // It serves, but calls have failed.
    assert.match(stdout, /^It is us\. \d+ % of the calls of the last 3 minutes failed by us \(\d+ of \d+ /);
  });

  it('warns of keys that it evicts, as status and doctor say without CONFIG', async () => {
    await direct.call('ACL', 'SETUSER', 'managed', 'on', '>pw', '~*', '&*', '+@all', '-config');
    const env = { REDIS_URL: redis.url.replace('//', '//managed:pw@') };
    for (const [policy, lost] of [
      ['allkeys-lru', 'accepted events may be lost'],
      ['volatile-lru', 'records of notifications and valid access tokens are lost'],
    ] as const) {
      await direct.config('SET', 'maxmemory-policy', policy);
      for (const command of ['status', 'doctor']) {
        const { stdout } = await cli.run([command], { env });
        assert.ok(stdout.includes(`it is full: then ${lost} (maxmemory-policy ${policy})`), stdout);
      }
    }
    await direct.config('SET', 'maxmemory-policy', 'noeviction');
  });
});
