/** A publisher of a service in a process of its own, who may also publish events. */
import assert from 'node:assert/strict';
import { createClient } from '../src/redis/records/clients.js';
import { startReceiver, until } from './receiver.js';
import { atEnd, connectDb, servers } from './servers.js';
import { newCustomer } from './service.js';

export type Publisher = Awaited<ReturnType<typeof newPublisher>>;

export async function newPublisher(
  { url, prefix }: { url: string; prefix: string },
  redisUrl = servers().redisUrl,
) {
  const db = await connectDb(redisUrl, prefix);
  atEnd(async () => db.redis.disconnect());
  const account = await newCustomer({ url, db }, ['push_notifications', 'enrichments']);

  /** Calls the API with the account's token. @throws unless the answer is a success */
  async function call(method: string, path: string, query: Record<string, string> = {}, body?: unknown) {
    const { status, body: told } = await account.call(method, `/${path}?${new URLSearchParams(query)}`, body);
    assert.ok(status < 300, `${path}: ${JSON.stringify(told)}`);
    return told;
  }

  return {
    db,
    account,
    call,
    token: account.token,
    async newClient(): Promise<string> {
      return (await createClient(db, { accountId: account.account_id, name: 'Example Site' })).clientToken;
    },
    async register(client_token: string, url: string): Promise<void> {
      await call('POST', 'register_push_notifications', { client_token, url });
    },
    /** Publishes an event of an asset. @returns the id of its notification */
    async publish(client_token: string, platform_id: string) {
      const event = { client_token, platform_id, segments: ['iab:17'] };
      return String((await call('POST', 'enrichments', {}, event)).notification_id);
    },
  };
}

/** Publishes one event of a new client, and waits until it is delivered. */
export async function publishOne(publisher: Publisher): Promise<void> {
  const receiver = await startReceiver();
  const client = await publisher.newClient();
  await publisher.register(client, receiver.url);
  await publisher.publish(client, 'video-1');
  await until('it is delivered', () => receiver.received.length === 1);
}
