/** The service for tests of a client: its API behind a proxy to Redis, an account, a client with a URL. */
import assert from 'node:assert/strict';
import { startProxy } from '../proxy.js';
import { servers } from '../servers.js';
import { newCustomer, startHarness } from '../service.js';

export type PublishedTo = Awaited<ReturnType<typeof startPublishedTo>>;

export async function startPublishedTo() {
  const redis = await startProxy(servers().redisUrl);
  const api = await startHarness({ REDIS_URL: redis.url, ACCOUNT_RATE_PER_SECOND: '10000' }, 'api');
  const account = await newCustomer(api, ['push_notifications', 'enrichments']);
  await account.register('http://127.0.0.1:9/nobody');
  return {
    api,
    redis,
    account,
    clientToken: account.client_token,
    /** Asserts that the client has notifications of so many assets, one of each. */
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
    async close() {
      redis.release();
      await api.close();
      await redis.close();
    },
  };
}

/** An event of an asset with this number. */
export const eventOf = ({ clientToken }: PublishedTo, n: number) => ({
  client_token: clientToken,
  platform_id: `video-${n}`,
  segments: ['iab:17', 'mood:ü🎬'],
});
