/** The service for tests of a client: its API behind a proxy to Redis, and for each test an account with a client that has a URL. */
import assert from 'node:assert/strict';
import type { EnrichmentEvent } from '../../clients/node/src/client.js';
import { waitForRedis } from '../../src/redis/connection/db.js';
import { startProxy } from '../proxy.js';
import { forTest, openForSuite, servers } from '../servers.js';
import { newCustomer, startHarness } from '../service.js';

/** Declares them for a suite. @returns what stands for those of the running test */
export function usePublishedTo() {
  const service = openForSuite(startService);
  return forTest(() => publishedTo(service));
}

async function startService() {
  const redis = await startProxy(servers().redisUrl);
  const settings = { REDIS_URL: redis.url, ACCOUNT_RATE_PER_SECOND: '10000' };
  const api = await startHarness(settings, 'api', { commandTimeoutMs: 3_000 });
  return {
    api,
    redis,
    async close() {
      redis.release();
      await api.close();
      await redis.close();
    },
  };
}

async function publishedTo({ api, redis }: Awaited<ReturnType<typeof startService>>) {
  // A test that failed may have left it so.
  redis.release();
  await waitForRedis(api.db, 10_000);
  const account = await newCustomer(api, ['push_notifications', 'enrichments']);
  await account.register('http://127.0.0.1:9/nobody');
  const { client_token } = account;
  /** @returns an event of the asset with this number */
  const event = (n: number, more: Partial<EnrichmentEvent> = {}): EnrichmentEvent => {
    return { client_token, platform_id: `video-${n}`, segments: ['iab:17', 'mood:ü🎬'], ...more };
  };
  return {
    api,
    redis,
    account,
    event,
    events: (count: number) => Array.from({ length: count }, (_, n) => event(n)),
    async assertEachOnce(assets: number): Promise<void> {
      const found: unknown[] = [];
      for (let query = 'limit=200'; ; ) {
        const { body } = await account.call('GET', `/notifications?${query}`);
        found.push(
          ...(body.notifications as { platform_id: string }[]).map(({ platform_id }) => platform_id),
        );
        if (body.next_cursor === undefined) break;
        query = `limit=200&cursor=${body.next_cursor}`;
      }
      assert.deepEqual([found.length, new Set(found).size], [assets, assets]);
    },
  };
}
