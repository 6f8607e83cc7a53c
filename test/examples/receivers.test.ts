import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { freePort } from '../../local/ports.js';
import { type Program, startProgram, startService } from '../program.js';
import { newPublisher, type Publisher } from '../publisher.js';
import { until } from '../receiver.js';
import { forSuite, opened, openForSuite } from '../servers.js';
import { allExamples, type Example } from './examples.js';
import { foreign, vectors } from './vectors.js';

describe('the example receivers', function () {
  this.timeout(180_000);
  const service = openForSuite(() => startService({ LOG_LEVEL: 'warn' }));
  const publisher = forSuite(() => newPublisher(service));
  let count = 0;

  const call: Publisher['call'] = (...asked) => publisher.call(...asked);

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

      if (example.name === 'php')
        it('answers 500 to what it cannot store, also where PHP displays its errors', async () => {
          const vector = vectors(Math.floor(Date.now() / 1000)).find(({ valid }) => valid);
          assert.ok(vector);
          const { secrets, headers, body } = vector;
          const receiver = opened(await startExample(example, secrets, { DATABASE: '/none/seen.sqlite' }));
          const { status } = await fetch(receiver.url, { method: 'POST', headers, body });
          assert.equal(status, 500, receiver.said());
        });

      it('accepts real notifications, works on each once, and continues while its secret is rotated', async () => {
        const client_token = await publisher.newClient();
        const { signing_secret } = await call('GET', 'push_notifications/signing_secret', { client_token });
        const receiver = opened(await startExample(example, [foreign, String(signing_secret)]));
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
        assert.deepEqual(receiver.worked(['updated: test']), []);
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

/** @param secrets what it checks signatures with */
async function startExample(example: Example, secrets: string[], more = {}): Promise<RunningExample> {
  const port = await freePort();
  const { command, args, cwd } = await example.prepare(port);
  const { HOME } = process.env;
  const env = { HOME, PORT: String(port), SIGNING_SECRETS: `${secrets.join(' ')}\r`, ...more };
  const program = startProgram(command, args, { cwd, env });
  const url = `http://127.0.0.1:${port}/notifications`;
  await program.until(
    `examples/${example.name} answers`,
    async () => (await fetch(url, { method: 'POST', body: '{}' })).status === 401,
  );
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
