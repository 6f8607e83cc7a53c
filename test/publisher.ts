/** A publisher of a running service, who may also publish events: an account with a token, its clients and its calls. */
import assert from 'node:assert/strict';
import { createLogger } from '../src/log.js';
import { type Db, openDb, waitForRedis } from '../src/redis/connection/db.js';
import { createAccount } from '../src/redis/records/accounts.js';
import { createClient } from '../src/redis/records/clients.js';
import { redisPatience, servers } from './servers.js';
import { newToken } from './service.js';

export interface Publisher {
  db: Db;
  account: { account_id: string; client_id: string; client_secret: string };
  token: string;
  newClient(): Promise<string>;
  /** Calls the API with its token. @throws unless the answer is a success */
  call(
    method: string,
    path: string,
    query?: Record<string, string>,
    body?: unknown,
    headers?: Record<string, string>,
  ): Promise<Record<string, unknown>>;
  register(client: string, url: string): Promise<void>;
  /** Publishes an event of an asset. @returns the id of its notification */
  publish(client: string, asset: string, headers?: Record<string, string>): Promise<string>;
  close(): void;
}

export async function newPublisher(service: { url: string; prefix: string }): Promise<Publisher> {
  const log = createLogger('silent', 'test');
  const db = openDb({ url: servers().redisUrl, prefix: service.prefix, log, ...redisPatience() });
  await waitForRedis(db, 5000);
  const scopes = ['push_notifications', 'enrichments'];
  const account = await createAccount(db, { name: 'Example Media', scopes });
  const token = await newToken(service, account);
  const publisher: Publisher = {
    ...{ db, account, token },
    async newClient() {
      const client = { accountId: account.account_id, name: 'Example Site' };
      return (await createClient(db, client)).clientToken;
    },
    async call(method, path, query = {}, body = undefined, headers = {}) {
      const answer = await fetch(`${service.url}/${path}?${new URLSearchParams(query)}`, {
        method,
        headers: {
          authorization: `Bearer ${token}`,
          ...(body ? { 'content-type': 'application/json' } : {}),
          ...headers,
        },
        ...(body ? { body: JSON.stringify(body) } : {}),
      });
      const told = (await answer.json()) as Record<string, unknown>;
      assert.ok(answer.ok, `${path}: ${JSON.stringify(told)}`);
      return told;
    },
    async register(client_token, url) {
      await publisher.call('POST', 'register_push_notifications', { client_token, url });
    },
    async publish(client_token, platform_id, headers) {
      const event = { client_token, platform_id, segments: ['iab:17'] };
      return String((await publisher.call('POST', 'enrichments', {}, event, headers)).notification_id);
    },
    close: () => db.redis.disconnect(),
  };
  return publisher;
}
