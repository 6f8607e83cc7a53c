import assert from 'node:assert/strict';
import { Webhook } from 'standardwebhooks';
import { setRequestHeaders } from '../../src/redis/records/requestHeaders.js';
import { createSecretBox } from '../../src/redis/records/secretBox.js';
import { createSigningSecret } from '../../src/redis/records/signingSecrets.js';
import { newToken, type RunningApi, startApi } from '../api/runningApi.js';
import { type Harness, type Receiver, startHarness, startReceiver, until } from '../delivery/harness.js';
import { type Cli, openCli } from '../operator/cli.js';

const key = Buffer.alloc(32, 7);
const secretsKey = `k1:${key.toString('base64')}`;
const box = createSecretBox([{ id: 'k1', key }]);

describe('export and import restore a working service on empty servers', () => {
  let oldApi: RunningApi;
  let oldCli: Cli;
  let h: Harness;
  let newApi: RunningApi;
  let newCli: Cli;
  let receiver: Receiver;

  before(async () => {
    receiver = await startReceiver();
    oldApi = await startApi({ env: { SECRETS_KEY: secretsKey } });
    oldCli = await openCli({ KEY_PREFIX: oldApi.prefix });
    h = await startHarness({}, 'all', { secretBox: box });
    await h.startWorker();
    newApi = await startApi({
      prefix: h.db.prefix,
      env: { TASK_QUEUE: h.taskQueue, SECRETS_KEY: secretsKey },
    });
    newCli = await openCli({ KEY_PREFIX: h.db.prefix, TASK_QUEUE: h.taskQueue });
  });
  after(async () => {
    for (const cli of [oldCli, newCli]) cli.close();
    for (const api of [oldApi, newApi]) await api.close();
    await h.close();
    await receiver.close();
  });

  async function register(api: RunningApi, token: string, client: string): Promise<Response> {
    const query = new URLSearchParams({ access_token: token, client_token: client, url: receiver.url });
    return await fetch(`${api.url}/register_push_notifications?${query}`, { method: 'POST' });
  }

  it('client secrets mint, registrations deliver, signing secrets sign and pauses hold; access tokens are not imported', async () => {
    const account = await oldCli.json('account', 'create', '--name', 'Acme');
    for (const client of ['MOVED', 'PAUSED']) {
      await oldCli.json(
        'client',
        'create',
        '--account',
        account.account_id,
        '--name',
        client,
        '--token',
        client,
      );
    }
    const signingSecret = await createSigningSecret(oldApi.deps.db, box, 'MOVED');
    await setRequestHeaders(oldApi.deps.db, box, 'MOVED', { 'x-gateway-key': 'secret-of-a-gateway' });
    const oldToken = await newToken(oldApi, account);
    for (const client of ['MOVED', 'PAUSED']) {
      assert.equal((await register(oldApi, oldToken, client)).status, 200);
      await until(
        'marked as answered',
        async () =>
          (await oldApi.deps.db.redis.hget(oldApi.deps.db.client(client).registration, 'answered')) === '1',
      );
    }
    await oldCli.json('registration', 'pause', 'PAUSED');

    const { stdout } = await oldCli.run(['export']);
    assert.ok(stdout.includes('header:x-gateway-key') && !stdout.includes('secret-of-a-gateway'), 'sealed');
    const imported = await newCli.run(['import', '--json'], { input: stdout });
    assert.equal(imported.status, 0, imported.stderr);

    const refused = await fetch(`${newApi.url}/clients`, {
      headers: { authorization: `Bearer ${oldToken}` },
    });
    assert.equal(refused.status, 401, 'tokens stay behind');
    const token = await newToken(newApi, account);
    const again = await register(newApi, token, 'MOVED');
    assert.match(((await again.json()) as { msg: string }).msg, /already registered/);

    await h.publish({ client: 'MOVED', asset: 'vid-1' });
    const held = await h.publish({ client: 'PAUSED', asset: 'vid-2' });
    const got = await until('delivered', () => receiver.received[0]);
    assert.equal(got.headers['webhook-client-token'], 'MOVED');
    assert.equal(got.headers['x-gateway-key'], 'secret-of-a-gateway');
    new Webhook(signingSecret).verify(got.body, got.headers as Record<string, string>);
    await until('owed', async () => (await h.notification('PAUSED', held.id))?.waitingReason === 'paused');
    assert.equal(receiver.received.length, 1);
    await newCli.json('registration', 'resume', 'PAUSED');
    await until('delivered after the resume', () => receiver.received.length === 2);

    const health = await newCli.json('registration', 'show', 'MOVED');
    assert.deepEqual([health.state, health.url], ['active', receiver.url]);
    const wake = await newCli.run(['import', '--json'], { input: stdout });
    assert.match(wake.stderr, /in another form: PAUSED/, 'what was changed since is not put back');
  });
});
