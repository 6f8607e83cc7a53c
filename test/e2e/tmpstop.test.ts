import { createLogger } from '../../src/log.js';
import { openDb, waitForRedis } from '../../src/redis/connection/db.js';
import { createAccount } from '../../src/redis/records/accounts.js';
import { createClient } from '../../src/redis/records/clients.js';
import { startReceiver, until } from '../delivery/harness.js';
import { servers, uniquePrefix } from '../servers.js';
import { startService } from './service.js';
describe('tmp', function () {
  this.timeout(150_000);
  it('ends', async () => {
    const prefix = uniquePrefix();
    const env = { KEY_PREFIX: prefix, TASK_QUEUE: `${prefix}queue`, RETRY_SCHEDULE_SECONDS: '0.3' };
    const api = await startService(env, 'api');
    const worker = await startService(env, 'worker');
    const db = openDb({ url: servers().redisUrl, prefix, log: createLogger('silent', 'test') });
    await waitForRedis(db, 5000);
    const receiver = await startReceiver();
    const account = await createAccount(db, { name: 'Example Media', scopes: ['push_notifications'] });
    const platform = await createAccount(db, { name: 'Platform', scopes: ['enrichments'] });
    const { clientToken } = await createClient(db, { accountId: account.account_id, name: 'Example Site' });
    const mint = async (a: { client_id: string; client_secret: string }, scope: string) =>
      ((await (await fetch(`${api.url}/oauth/access_token`, { method: 'POST', body: new URLSearchParams({ grant_type: 'none', client_id: a.client_id, client_secret: a.client_secret, scope }) })).json()) as { access_token: string }).access_token;
    await fetch(`${api.url}/register_push_notifications?${new URLSearchParams({ client_token: clientToken, url: receiver.url })}`, { method: 'POST', headers: { authorization: `Bearer ${await mint(account, 'push_notifications')}` } });
    await fetch(`${api.url}/enrichments`, { method: 'POST', headers: { authorization: `Bearer ${await mint(platform, 'enrichments')}`, 'content-type': 'application/json' }, body: JSON.stringify({ client_token: clientToken, platform_id: 'a', segments: ['x'] }) });
    await until('fails', () => worker.said().includes('could not begin'));
    await new Promise((r) => setTimeout(r, 5000));
    const t = Date.now();
    await api.stop();
    console.log('api', Date.now() - t);
    console.log(await Promise.race([worker.stop(), new Promise((r) => setTimeout(r, 60_000, 'hangs'))]), Date.now() - t);
    console.log(worker.said().split('\n').slice(-8).join('\n').slice(0, 2500));
    db.redis.disconnect();
    await receiver.close();
  });
});
