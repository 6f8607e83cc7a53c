import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { createLogger } from '../../src/log.js';
import { type Db, openDb, waitForRedis } from '../../src/redis/connection/db.js';
import { getNotification } from '../../src/redis/notifications/notifications.js';
import { createAccount } from '../../src/redis/records/accounts.js';
import { createClient, setClient } from '../../src/redis/records/clients.js';
import { getEndpoint } from '../../src/redis/records/endpoint.js';
import { mintedToken } from '../api/credentials.js';
import { startReceiver, until } from '../delivery/harness.js';
import { servers, uniquePrefix } from '../servers.js';
import { startService } from './service.js';

describe('Processes of the service', () => {
  let prefix: string;
  let db: Db;
  const secretsKey = `k1:${randomBytes(32).toString('base64')}`;

  beforeEach(async () => {
    prefix = uniquePrefix();
    db = openDb({ url: servers().redisUrl, prefix, log: createLogger('silent', 'test') });
    await waitForRedis(db, 5000);
  });
  afterEach(() => db.redis.disconnect());

  async function publisher(): Promise<{ token: string; client: string }> {
    const scopes = ['push_notifications', 'enrichments'];
    const account = await createAccount(db, { name: 'A company', scopes });
    const { clientToken } = await createClient(db, { accountId: account.account_id, name: 'A site' });
    return {
      token: await mintedToken(db, account, scopes, 600),
      client: clientToken,
    };
  }

  it('answer exactly one 200 to 200 concurrent registrations of one client at two API processes', async () => {
    const env = { KEY_PREFIX: prefix, SECRETS_KEY: secretsKey };
    const apis = await Promise.all([startService(env, 'api'), startService(env, 'api')]);
    try {
      const { token, client } = await publisher();
      const answers = await Promise.all(
        Array.from({ length: 200 }, async (_, i) => {
          const url = `http://127.0.0.1:9/hook-${i % 20}`;
          const query = new URLSearchParams({ access_token: token, client_token: client, url });
          const api = apis[i % 2];
          const answer = await fetch(`${api?.url}/register_push_notifications?${query}`, { method: 'POST' });
          return { status: answer.status, body: (await answer.json()) as { msg?: string } };
        }),
      );
      assert.equal(answers.filter((a) => a.status === 200).length, 1);
      const refused = answers.filter((a) => a.status !== 200);
      for (const { status, body } of refused) {
        assert.equal(status, 400);
        assert.match(body.msg ?? '', /^A url is already registered/);
      }
    } finally {
      assert.deepEqual(await Promise.all(apis.map((api) => api.stop())), [0, 0]);
    }
  });

  it('finish and settle the POST in flight after SIGTERM, then end with 0', async () => {
    const service = await startService({ KEY_PREFIX: prefix, TASK_QUEUE: `${prefix}queue` });
    const receiver = await startReceiver();
    try {
      const { token, client } = await publisher();
      const query = new URLSearchParams({ access_token: token, client_token: client, url: receiver.url });
      const registered = await fetch(`${service.url}/register_push_notifications?${query}`, {
        method: 'POST',
      });
      assert.equal(registered.status, 200);
      receiver.delayMs = 1500;
      const answer = await fetch(`${service.url}/enrichments`, {
        method: 'POST',
        headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
        body: JSON.stringify({ client_token: client, platform_id: 'a', segments: ['x'] }),
      });
      assert.equal(answer.status, 202);
      const { notification_id: id } = (await answer.json()) as { notification_id: string };
      await until('the POST is in flight', () => receiver.received.length === 1);
      assert.equal(await service.stop(), 0, service.said());
      const found = await getNotification(db, client, id);
      assert.equal(found?.state, 'delivered');
      assert.equal(found.attempts.length, 1);
      assert.equal(receiver.received.length, 1);
    } finally {
      await service.stop();
      await receiver.close();
    }
  });

  it('leave a long queue to the others after SIGTERM, settle the POSTs in flight, and end with 0', async function () {
    this.timeout(120_000);
    const env = { KEY_PREFIX: prefix, TASK_QUEUE: `${prefix}queue`, WORKFLOWS_PER_SECOND: '1000' };
    const receiver = await startReceiver();
    let service = await startService({ ...env, SECRETS_KEY: secretsKey });
    try {
      const { token, client } = await publisher();
      const query = new URLSearchParams({ access_token: token, client_token: client, url: receiver.url });
      await fetch(`${service.url}/register_push_notifications?${query}`, { method: 'POST' });
      await setClient(db, client, { maxInFlight: 2 });
      receiver.delayMs = 3000;
      const published = await Promise.all(
        Array.from({ length: 100 }, (_, i) =>
          fetch(`${service.url}/enrichments`, {
            method: 'POST',
            headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
            body: JSON.stringify({ client_token: client, platform_id: `vid-${i}`, segments: ['x'] }),
          }),
        ),
      );
      assert.deepEqual(new Set(published.map(({ status }) => status)), new Set([202]));
      await until('workflows wait for the queue', async () => {
        const metrics = await (await fetch(`${service.adminUrl}/metrics`)).text();
        return Number(/^asset_update_retries_under_way (\d+)/m.exec(metrics)?.[1]) > 30;
      });
      const toldAt = Date.now();
      assert.equal(await service.stop(), 0, service.said());
      // The queue would last two minutes, and workers are stopped by force after 25 s.
      assert.ok(Date.now() - toldAt < 12_000, `${Date.now() - toldAt} ms`);
      assert.equal(await db.redis.zcard(db.global.processes), 0);
      assert.equal((await getEndpoint(db, client)).owed, 100 - receiver.received.length);

      receiver.delayMs = 0;
      service = await startService({ ...env, SECRETS_KEY: secretsKey });
      await until('nothing is owed', async () => (await getEndpoint(db, client)).owed === 0);
      assert.equal(receiver.received.length, 100);
      assert.equal(new Set(receiver.received.map(({ headers }) => headers['webhook-id'])).size, 100);
    } finally {
      await service.stop();
      await receiver.close();
    }
  });
});
