import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { createLogger } from '../../src/log.js';
import { type Db, openDb, waitForRedis } from '../../src/redis/connection/db.js';
import { createAccount } from '../../src/redis/records/accounts.js';
import { createClient } from '../../src/redis/records/clients.js';
import { mintedToken } from '../api/credentials.js';
import { type Service, startService } from '../program.js';
import { until } from '../receiver.js';
import { servers } from '../servers.js';
import { allExamples } from './examples.js';
import { startExample } from './runningExample.js';
import { foreign, vectors } from './vectors.js';

describe('the example receivers', function () {
  this.timeout(180_000);
  let service: Service;
  let db: Db;
  let authorization: { authorization: string };
  let accountId: string;
  let count = 0;

  before(async () => {
    service = await startService({ LOG_LEVEL: 'warn' });
    db = openDb({ url: servers().redisUrl, prefix: service.prefix, log: createLogger('silent', 'test') });
    await waitForRedis(db, 5000);
    const scopes = ['push_notifications', 'enrichments'];
    const account = await createAccount(db, { name: 'Example Media', scopes });
    accountId = account.account_id;
    authorization = { authorization: `Bearer ${await mintedToken(db, account, scopes, 600)}` };
  });
  after(async () => {
    await service?.stop();
    db?.redis.disconnect();
  });

  for (const example of allExamples) {
    describe(`examples/${example.name}`, () => {
      before(function () {
        const [command, ...args] = example.runtime;
        if (spawnSync(command, args, { stdio: 'ignore' }).status !== 0) this.skip();
      });

      it('gives each signature vector its verdict', async () => {
        const secrets = (v: { secrets: string[] }) => v.secrets.join(' ');
        for (const held of new Set(vectors(0).map(secrets))) {
          const receiver = await startExample(example, held.split(' '));
          try {
            const now = Math.floor(Date.now() / 1000);
            for (const vector of vectors(now).filter((v) => secrets(v) === held)) {
              const { name, headers, body, valid } = vector;
              const answer = await fetch(receiver.url, { method: 'POST', headers, body });
              assert.equal(answer.status, valid ? 204 : 401, `${name}\n${receiver.said()}`);
            }
          } finally {
            await receiver.stop();
          }
        }
      });

      it('accepts real notifications, works on each once, and continues while its secret is rotated', async () => {
        const { clientToken } = await createClient(db, { accountId, name: 'Example Site' });
        const client_token = clientToken;
        const { signing_secret } = await call('GET', 'push_notifications/signing_secret', { client_token });
        const receiver = await startExample(example, [foreign, String(signing_secret)]);
        try {
          const tried = await call('POST', 'push_notifications/test', { client_token, url: receiver.url });
          assert.equal(tried.status, 204);
          await call('POST', 'register_push_notifications', { client_token, url: receiver.url });

          const assets = [0, 1, 2].map((n) => `video-${++count}-${n}-of-${example.name}`);
          const [first = '', second = '', third = ''] = assets;
          const id = await delivered(client_token, first);
          await call('POST', `notifications/${id}/redeliver`, { client_token });
          await until('it was delivered twice', async () => (await attempts(client_token, id)).length === 2);
          assert.deepEqual(
            (await attempts(client_token, id)).map(({ status }) => status),
            [204, 204],
          );

          await call('POST', 'push_notifications/signing_secret', { client_token });
          await delivered(client_token, second);
          await delivered(client_token, third);
          await until('the last one is worked on', () => receiver.worked(assets).includes(third));
          assert.deepEqual(receiver.worked(assets).toSorted(), assets.toSorted(), receiver.said());
          assert.deepEqual(receiver.worked(['updated: test']), []);
        } finally {
          await receiver.stop();
        }
      });
    });
  }

  /** A notification of a new asset, delivered at its first attempt. @returns its id */
  async function delivered(client_token: string, platform_id: string): Promise<string> {
    const body = JSON.stringify({ client_token, platform_id, segments: ['iab:17'] });
    const headers = { ...authorization, 'content-type': 'application/json' };
    const answer = await fetch(`${service.url}/enrichments`, { method: 'POST', headers, body });
    const { notification_id: id } = (await answer.json()) as { notification_id: string };
    await until('it is delivered', async () => (await attempts(client_token, id)).length === 1);
    assert.equal((await attempts(client_token, id))[0]?.status, 204);
    return id;
  }

  async function attempts(client_token: string, id: string) {
    const found = await call('GET', `notifications/${id}`, { client_token });
    return found.attempts as { status?: number }[];
  }

  async function call(method: string, path: string, query: Record<string, string>) {
    const url = `${service.url}/${path}?${new URLSearchParams(query)}`;
    const answer = await fetch(url, { method, headers: authorization });
    const body = (await answer.json()) as Record<string, unknown>;
    assert.ok(answer.ok, `${path}: ${JSON.stringify(body)}`);
    return body;
  }
});
