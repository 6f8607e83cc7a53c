import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { createLogger } from '../../src/log.js';
import { type Db, openDb, waitForRedis } from '../../src/redis/connection/db.js';
import { createAccount } from '../../src/redis/records/accounts.js';
import { createClient, setClient } from '../../src/redis/records/clients.js';
import { getEndpoint, pauseEndpoint, unpauseEndpoint } from '../../src/redis/records/endpoint.js';
import { mintedToken } from '../api/credentials.js';
import { type Service, startService } from '../e2e/service.js';
import { servers, uniquePrefix } from '../servers.js';
import { type Harness, type Receiver, startHarness, startReceiver, until } from './harness.js';

/** Two processes, each with a worker, that both take events of the same client. */
describe("A client's bounds over two workers", () => {
  const prefix = uniquePrefix();
  let db: Db;
  let services: Service[];
  let receiver: Receiver;
  let client: string;
  let token: string;

  before(async () => {
    db = openDb({ url: servers().redisUrl, prefix, log: createLogger('silent', 'test') });
    await waitForRedis(db, 5000);
    const env = {
      KEY_PREFIX: prefix,
      TASK_QUEUE: `${prefix}queue`,
      SECRETS_KEY: `k1:${randomBytes(32).toString('base64')}`,
    };
    services = await Promise.all([startService(env), startService(env)]);
  });
  after(async () => {
    await Promise.all(services.map((service) => service.stop()));
    db.redis.disconnect();
  });

  beforeEach(async () => {
    receiver = await startReceiver();
    const scopes = ['push_notifications', 'enrichments'];
    const account = await createAccount(db, { name: 'A company', scopes });
    token = await mintedToken(db, account, scopes, 600);
    client = (await createClient(db, { accountId: account.account_id, name: 'A site' })).clientToken;
    const query = new URLSearchParams({ access_token: token, client_token: client, url: receiver.url });
    const url = `${services[0]?.url}/register_push_notifications?${query}`;
    assert.equal((await fetch(url, { method: 'POST' })).status, 200);
  });
  afterEach(() => receiver.close());

  async function publishAll(count: number): Promise<void> {
    await Promise.all(
      Array.from({ length: count }, async (_, i) => {
        const answer = await fetch(`${services[i % 2]?.url}/enrichments`, {
          method: 'POST',
          headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
          body: JSON.stringify({ client_token: client, platform_id: `vid-${i}`, segments: ['x'] }),
        });
        assert.equal(answer.status, 202);
      }),
    );
    await until('all are delivered', async () => {
      return receiver.received.length >= count && (await getEndpoint(db, client)).owed === 0;
    });
    assert.equal(receiver.received.length, count);
  }

  it('allow at most max_in_flight POSTs without an answer', async () => {
    await setClient(db, client, { maxInFlight: 3 });
    receiver.delayMs = 20;
    await publishAll(60);
    assert.equal(receiver.mostInFlight, 3);
  });

  it('allow at most max_per_second', async () => {
    await setClient(db, client, { maxPerSecond: 20 });
    const before = Date.now();
    await publishAll(30);
    // Unused places are kept for a twentieth of a second: one more place.
    const soonestMs = ((30 - 1 - 1) * 1000) / 20;
    const tookMs = (receiver.received.at(-1)?.at ?? 0) - before;
    assert.ok(tookMs >= soonestMs, `30 in ${tookMs} ms`);
  });
});

describe('Catch-up of one client', () => {
  let h: Harness;
  let receiver: Receiver;

  before(async () => {
    h = await startHarness({ ATTEMPT_TIMEOUT_SECONDS: '30' });
    await h.startWorker();
    receiver = await startReceiver();
  });
  after(async () => {
    // Ends the attempt that hangs.
    await receiver.close();
    await h.close();
  });

  it('delays no asset when the receiver is slow for another', async () => {
    const client = await h.newClient(receiver.url);
    await pauseEndpoint(h.db, client);
    const assets = Array.from({ length: 100 }, (_, i) => `vid-${i}`);
    await Promise.all(assets.map((asset) => h.publish({ client, asset })));
    await until('all are owed', async () => (await getEndpoint(h.db, client)).owed === 100);
    receiver.answer = (request) => (request.body.includes('"vid-0"') ? 'hang' : 200);
    await unpauseEndpoint(h.db, client);
    await h.wake(client);
    const { inFlight } = await until('all but that one are delivered', async () => {
      const endpoint = await getEndpoint(h.db, client);
      return endpoint.owed === 1 && endpoint;
    });
    assert.equal(inFlight, 1, 'its first attempt is still under way');
    assert.equal(receiver.idsOf('vid-0').length, 1);
  });
});
