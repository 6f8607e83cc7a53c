import assert from 'node:assert/strict';
import { type Service, startService } from '../program.js';
import { uniquePrefix } from '../servers.js';
import { type Cli, openCli } from './cli.js';

describe('operator: demo', () => {
  let cli: Cli;
  let service: Service;

  before(async () => {
    service = await startService();
    cli = await openCli({
      PORT: new URL(service.url).port,
      KEY_PREFIX: service.prefix,
      TASK_QUEUE: service.taskQueue,
      SECRETS_KEY: `k1:${service.secretsKey}`,
    });
  });
  after(() => service.stop());

  it('runs the whole flow against the running service with its own receiver, and prints each step', async () => {
    const ran = await cli.run(['demo']);
    assert.equal(ran.status, 0, ran.stderr);
    for (const words of [
      /^1\. /,
      /POST \/oauth\/access_token/,
      /POST \/register_push_notifications\n {3}200 http:\/\/127\.0\.0\.1:/,
      /POST \/enrichments\n {3}202 /,
      /webhook-signature: v1,/,
      /\{"event":"asset-update","platform_id":"video-1"\}/,
      /it matches/,
      /notification show msg_/,
      /client delete demo-\w+\n.*account disable acc_\S+\n$/,
    ]) {
      assert.match(ran.stdout, words);
    }
  });

  it('--json prints one value; notification show, explain and audit find its work, without secrets', async () => {
    const demo = await cli.json('demo');
    assert.equal(demo.received.signature, 'verified');
    assert.equal(demo.received.headers['webhook-id'], demo.notification_id);
    assert.equal(demo.received.body, '{"event":"asset-update","platform_id":"video-1"}');
    assert.equal((await cli.json('account', 'list')).length, 1, 'every demo uses the same account');
    const [shown, why, audit] = await Promise.all([
      cli.json('notification', 'show', demo.notification_id),
      cli.json('explain', demo.client_token, demo.platform_id),
      cli.run(['audit', '--json']),
    ]);
    const said = await cli.run(['explain', demo.client_token, demo.platform_id]);
    assert.match(said.stdout, /^state +delivered$[\s\S]*^ended_at +\S+Z, .* ago$/m);
    assert.equal(shown.client_token, demo.client_token);
    assert.equal(shown.attempts[0].status, 204);
    assert.equal(why.last_notification.notification_id, demo.notification_id);
    assert.equal(why.catch_up_id, null, 'nothing is owed');
    assert.match(audit.stdout, new RegExp(demo.client_token));
    assert.equal(/client_secret"|whsec_/.test(audit.stdout), false);
  });

  it('leaves a status without problems', async () => {
    const status = await cli.json('status');
    assert.equal(status.verdict, 'fine', status.because);
    assert.deepEqual([status.workers, status.owed, status.worst], [1, 0, []]);
  });

  const needs =
    /(The|the) url must (start|have).*Nothing was created\. .*ALLOW_HTTP_TARGETS=true and ALLOWED_TARGET_CIDRS=127\.0\.0\.0\/8/s;
  for (const [what, env, says] of [
    ['the service does not answer', { PORT: '1' }, /The service does not answer/],
    ['its URL may not be http', { ALLOW_HTTP_TARGETS: '' }, needs],
    ['its URL may not be on this machine', { ALLOWED_TARGET_CIDRS: '' }, needs],
  ] as const)
    it(`is refused, says what it needs and creates nothing if ${what}`, async () => {
      assert.match(await refusedDemo(env), says);
    });

  /** Runs in a separate installation, where anything that it created would be visible. */
  async function refusedDemo(env: NodeJS.ProcessEnv): Promise<string> {
    const empty = { KEY_PREFIX: uniquePrefix() };
    const ran = await cli.run(['demo', '--json'], { env: { ...empty, ...env } });
    assert.deepEqual([ran.status, ran.stdout], [1, '']);
    for (const list of [['account', 'list'], ['client', 'list'], ['audit']]) {
      assert.equal((await cli.run([...list, '--json'], { env: empty })).stdout, '[]\n');
    }
    return ran.stderr;
  }
});
