/** The service for tests of a client: its API behind a proxy to Redis, an account, a client with a URL. */
import assert from 'node:assert/strict';
import { startProxy } from '../proxy.js';
import { newPublisher, type Publisher } from '../publisher.js';
import { servers } from '../servers.js';
import { type RunningApi, startApi } from '../service.js';

export interface PublishedTo {
  api: RunningApi;
  redis: Awaited<ReturnType<typeof startProxy>>;
  account: Publisher['account'];
  clientToken: string;
  /** Ids of all notifications of the client, by asset. */
  notifications(): Promise<Map<string, string[]>>;
  /** Asserts that the client has notifications of so many assets, one of each. */
  assertEachOnce(assets: number): Promise<void>;
  close(): Promise<void>;
}

export async function startPublishedTo(): Promise<PublishedTo> {
  const redis = await startProxy(servers().redisUrl);
  const api = await startApi({ redisUrl: redis.url });
  const publisher = await newPublisher(api);
  const client_token = await publisher.newClient();
  await publisher.register(client_token, 'http://127.0.0.1:9/nobody');
  const to: PublishedTo = {
    api,
    redis,
    account: publisher.account,
    clientToken: client_token,
    async notifications() {
      const all = new Map<string, string[]>();
      for (let cursor: string | undefined = ''; cursor !== undefined; ) {
        const page = await publisher.call('GET', 'notifications', {
          ...{ client_token, limit: '200' },
          ...(cursor !== '' && { cursor }),
        });
        for (const one of page.notifications as { platform_id: string; notification_id: string }[]) {
          all.set(one.platform_id, [...(all.get(one.platform_id) ?? []), one.notification_id]);
        }
        cursor = page.next_cursor as string | undefined;
      }
      return all;
    },
    async assertEachOnce(assets) {
      const found = await to.notifications();
      assert.equal(found.size, assets);
      for (const [asset, ids] of found) assert.equal(ids.length, 1, asset);
    },
    async close() {
      redis.release();
      await api.close();
      await redis.close();
      publisher.close();
    },
  };
  return to;
}

/** An event of an asset with this number. */
export const eventOf = ({ clientToken }: PublishedTo, n: number) => ({
  client_token: clientToken,
  platform_id: `video-${n}`,
  segments: ['iab:17', 'mood:ü🎬'],
});
