import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { createHmac } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { freePort } from '../../local/ports.js';
import { type Program, startProgram, startService } from '../program.js';
import { newPublisher, type Publisher } from '../publisher.js';
import { until } from '../receiver.js';
import { forSuite, newFolder, opened, openForSuite } from '../servers.js';
import { allExamples, type Example } from './examples.js';
import { current, vectors } from './vectors.js';

describe('the example receivers', function () {
  this.timeout(180_000);
  const service = openForSuite(() => startService({ LOG_LEVEL: 'warn' }));
  const publisher = forSuite(() => newPublisher(service));
  let count = 0;

  const call: Publisher['call'] = (...asked) => publisher.call(...asked);

  for (const example of allExamples) {
    describe(`examples/${example.name}`, () => {
      let client_token: string;
      /** Holds the secret of the vectors, and that of the client. */
      let receiver: RunningExample;
      before(async function () {
        const [command, ...args] = example.runtime;
        if (spawnSync(command, args, { stdio: 'ignore' }).status !== 0) this.skip();
        client_token = await publisher.newClient();
        const { signing_secret } = await call('GET', 'push_notifications/signing_secret', { client_token });
        receiver = await startExample(example, [current, '', String(signing_secret)]);
      });
      after(() => receiver?.stop());

      it('gives each signature vector its verdict', async () => {
        const secrets = (v: { secrets: string[] }) => v.secrets.join(' ');
        const verdictsOf = async (held: string) => {
          const holder =
            held.trim() === current ? receiver : opened(await startExample(example, held.split(' ')));
          const now = Math.floor(Date.now() / 1000);
          for (const vector of vectors(now).filter((v) => secrets(v) === held)) {
            const { name, headers, body, valid } = vector;
            const answer = await fetch(holder.url, { method: 'POST', headers, body });
            assert.equal(answer.status, valid ? 204 : 401, `${name}\n${holder.said()}`);
          }
        };
        await Promise.all([...new Set(vectors(0).filter(hasKey).map(secrets))].map(verdictsOf));
      });

      it('says in one sentence that it has no usable secret, at its start or at its first request', async () => {
        const saysSo = async (secrets: string[]) => {
          const useless = opened(await beginExample(example, secrets));
          const ask = () =>
            fetch(useless.url, { method: 'POST', body: '{}' }).then(
              ({ status }) => status,
              () => 'no answer',
            );
          await until('it says so', async () => {
            await ask();
            return /SIGNING_SECRETS has no signing secret/.test(useless.said());
          });
          assert.match(String(await ask()), /^(500|no answer)$/);
        };
        const withoutKey = vectors(0).filter((vector) => !hasKey(vector));
        const unusable = withoutKey.flatMap(({ secrets }) => secrets).filter(Boolean);
        await Promise.all([[''], [...unusable, current.slice(0, 20)]].map(saysSo));
      });

      it('leaves alone what is no asset-update, and what it has seen', async () => {
        const now = Math.floor(Date.now() / 1000);
        const send = async (id: string, event: string, asset: string) => {
          const body = JSON.stringify({ event, platform_id: asset });
          const headers = { 'webhook-id': id, 'webhook-timestamp': String(now) };
          const signature = sign(current, `${id}.${now}.${body}`);
          const { status } = await fetch(receiver.url, {
            method: 'POST',
            headers: { ...headers, 'webhook-signature': signature, 'content-type': 'application/json' },
            body,
          });
          assert.equal(status, 204, receiver.said());
        };
        const assets = ['other-event', 'asset-seen', 'asset-last'];
        await send('msg_1', 'asset-removed', 'other-event');
        await send('msg_2', 'asset-update', 'asset-seen');
        await send('msg_2', 'asset-update', 'asset-seen');
        await send('msg_3', 'asset-update', 'asset-last');
        await until('the last one is worked on', () => receiver.worked(assets).includes('asset-last'));
        assert.deepEqual(receiver.worked(assets).toSorted(), ['asset-last', 'asset-seen'], receiver.said());
      });

      if (example.name === 'php')
        it('answers 500 to what it cannot store, also where PHP displays its errors', async () => {
          const vector = vectors(Math.floor(Date.now() / 1000)).find(({ valid }) => valid);
          assert.ok(vector);
          const { secrets, headers, body } = vector;
          const storeless = opened(await startExample(example, secrets, { DATABASE: '/none/seen.sqlite' }));
          const { status } = await fetch(storeless.url, { method: 'POST', headers, body });
          assert.equal(status, 500, storeless.said());
        });

      if (['python', 'spring'].includes(example.name))
        it('answers 413 to a body over 16 KiB, before it looks at the signature', async () => {
          const { status } = await fetch(receiver.url, { method: 'POST', body: 'x'.repeat(16_385) });
          assert.equal(status, 413, receiver.said());
        });

      if (example.name === 'php')
        it('does the work of a notification later where it failed after the answer', async () => {
          const vector = vectors(Math.floor(Date.now() / 1000)).find(({ valid }) => valid);
          assert.ok(vector);
          const { secrets, headers, body } = vector;
          const folder = await newFolder();
          // The work of the example is a call of this function.
          await writeFile(join(folder, 'failing.ini'), 'disable_functions=error_log\n');
          const DATABASE = join(folder, 'notifications.sqlite');
          for (const more of [{ PHP_INI_SCAN_DIR: `:${folder}` }, {}]) {
            const one = opened(await startExample(example, secrets, { DATABASE, ...more }));
            const { status } = await fetch(one.url, { method: 'POST', headers, body });
            assert.equal(status, 204, one.said());
            if ('PHP_INI_SCAN_DIR' in more) assert.match(one.said(), /undefined function error_log/);
            else await until('it is worked on', () => one.worked(['vid-9']).length === 1);
            await one.stop();
          }
        });

      if (example.name === 'laravel')
        it('answers 500 while its queue takes nothing, and does the work at the next attempt', async () => {
          const vector = vectors(Math.floor(Date.now() / 1000)).find(({ valid }) => valid);
          assert.ok(vector);
          const { secrets, headers, body } = vector;
          const one = opened(await startExample(example, secrets));
          for (const [query, expected] of [
            ['?queue=none', 500],
            ['', 204],
          ] as const) {
            const { status } = await fetch(one.url + query, { method: 'POST', headers, body });
            assert.equal(status, expected, one.said());
          }
          await until('it is worked on', () => one.worked(['vid-9']).length === 1);
        });

      it('accepts real notifications, works on each once, and continues while its secret is rotated', async () => {
        const tried = await call('POST', 'push_notifications/test', { client_token, url: receiver.url });
        assert.equal(tried.status, 204);
        await publisher.register(client_token, receiver.url);

        const assets = [0, 1, 2].map((n) => `video-${++count}-${n}-of-${example.name}`);
        const [first = '', second = '', third = ''] = assets;
        const id = await delivered(client_token, first);
        await call('POST', `notifications/${id}/redeliver`, { client_token });
        await until('it was delivered twice', async () => (await attempts(client_token, id)).length === 2);
        const statuses = (await attempts(client_token, id)).map(({ status }) => status);
        assert.deepEqual(statuses, [204, 204]);

        await call('POST', 'push_notifications/signing_secret', { client_token });
        await delivered(client_token, second);
        await delivered(client_token, third);
        await until('the last one is worked on', () => receiver.worked(assets).includes(third));
        assert.deepEqual(receiver.worked(assets).toSorted(), assets.toSorted(), receiver.said());
        assert.doesNotMatch(receiver.said(), /updated: .*\btest\b/);
      });
    });
  }

  /** A notification of a new asset, delivered at its first attempt. @returns its id */
  async function delivered(client_token: string, platform_id: string): Promise<string> {
    const id = await publisher.publish(client_token, platform_id);
    await until('it is delivered', async () => (await attempts(client_token, id)).length === 1);
    assert.equal((await attempts(client_token, id))[0]?.status, 204);
    return id;
  }

  async function attempts(client_token: string, id: string) {
    const found = await call('GET', `notifications/${id}`, { client_token });
    return found.attempts as { status?: number }[];
  }
});

interface RunningExample extends Program {
  url: string;
  /** The assets it has worked on, in order; those of a test event never are. */
  worked(assets: string[]): string[];
}

/** Whether a receiver with these secrets can accept anything. */
const hasKey = ({ secrets }: { secrets: string[] }): boolean =>
  secrets.some((secret) => Buffer.from(secret.replace('whsec_', ''), 'base64').length >= 24);

const sign = (secret: string, content: string): string =>
  `v1,${createHmac('sha256', Buffer.from(secret.replace('whsec_', ''), 'base64'))
    .update(content)
    .digest('base64')}`;

/** @param secrets what it checks signatures with */
async function startExample(example: Example, secrets: string[], more = {}): Promise<RunningExample> {
  const program = await beginExample(example, secrets, more);
  await program.until(
    `examples/${example.name} answers`,
    async () => (await fetch(program.url, { method: 'POST', body: '{}' })).status === 401,
  );
  return program;
}

async function beginExample(example: Example, secrets: string[], more = {}): Promise<RunningExample> {
  const port = await freePort();
  const { command, args, cwd } = await example.prepare(port);
  const { HOME } = process.env;
  const env = { HOME, PORT: String(port), SIGNING_SECRETS: `${secrets.join(' ')}\r`, ...more };
  const program = startProgram(command, args, { cwd, env });
  const url = `http://127.0.0.1:${port}/notifications`;
  return Object.assign(program, {
    url,
    worked: (assets: string[]) =>
      program
        .said()
        .split('\n')
        .filter((line) => line.includes('updated:'))
        .flatMap((line) => assets.filter((asset) => line.includes(asset))),
  });
}
