import assert from 'node:assert/strict';
import { createLogger } from '../../src/log.js';
import { type Db, openDb, waitForRedis } from '../../src/redis/connection/db.js';
import { getNotification } from '../../src/redis/notifications/notifications.js';
import { createAccount } from '../../src/redis/records/accounts.js';
import { createClient } from '../../src/redis/records/clients.js';
import { mintedToken } from '../api/credentials.js';
import { startService } from '../program.js';
import { startReceiver, until } from '../receiver.js';
import { servers, uniquePrefix } from '../servers.js';

describe('Processes of the service', () => {
  let prefix: string;
  let db: Db;

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
});
