import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type Service, startService } from '../program.js';
import { newPublisher, type Publisher } from '../publisher.js';
import { type Receiver, startReceiver, until } from '../receiver.js';
import { newFolder } from '../servers.js';
import { installed, makeVenv, run } from '../tools.js';

/** The short form is that of CI; FUZZ_FORM=long tries more. */
const isLong = process.env.FUZZ_FORM === 'long';
/** Made-up calls of each kind for each operation. */
const examples = Number(process.env.FUZZ_EXAMPLES || (isLong ? 500 : 25));

describe('every call of the OpenAPI description, fuzzed', function () {
  this.timeout(isLong ? 3_600_000 : 300_000);
  let service: Service;
  let receiver: Receiver;
  let publisher: Publisher;
  let st: readonly [program: string, ...args: string[]];

  before(async function () {
    const is311 = ['-c', 'import sys; sys.exit(sys.version_info < (3, 11))'];
    if (spawnSync('python3', is311).status !== 0) this.skip();
    st = await fuzzer();
    receiver = await startReceiver();
    let answered = 0;
    receiver.answer = () => (answered++ % 3 === 0 ? 500 : 200);
    // Rates that the fuzzer cannot reach: else most of its calls would see nothing but 429.
    service = await startService({
      LOG_LEVEL: 'warn',
      TOKEN_RATE_PER_SECOND: '10000',
      ACCOUNT_RATE_PER_SECOND: '10000',
    });
    publisher = await newPublisher(service);
  });
  after(() => service?.stop());

  it('answers as described: no 5xx but a documented 503, no crash, no stack trace', async () => {
    const { account, token } = publisher;
    const clients: string[] = [];
    const notifications: string[] = [];
    await publisher.call('PUT', 'notices', {}, { url: receiver.url });
    for (let i = 0; i < 4; i++) {
      const client = await publisher.newClient();
      clients.push(client);
      if (i > 1) continue;
      await publisher.register(client, receiver.url);
      for (const platform_id of ['vid-1', 'vid-2']) {
        const event = {
          event_id: `an-${platform_id}`,
          client_token: client,
          platform_id,
          segments: ['iab:17'],
        };
        notifications.push(String((await publisher.call('POST', 'enrichments', {}, event)).notification_id));
      }
    }
    await until('the first notifications were sent', () => receiver.received.length >= 4);

    const dir = await newFolder();
    const config = join(dir, 'schemathesis.toml');
    const settings = await readFile(join(import.meta.dirname, 'schemathesis.toml'), 'utf8');
    const existing: Record<string, unknown> = {
      ...account,
      token,
      url: receiver.url,
      examples,
      clients: JSON.stringify(clients),
      notifications: JSON.stringify(notifications),
    };
    await writeFile(
      config,
      settings.replaceAll(/\$\{(\w+)\}/g, (_, name) => String(existing[name])),
    );
    const log = join(dir, 'answers.har');
    const [python, ...first] = st;
    const fuzzed = await run(
      python,
      [...first, '--config-file', config, 'run', `${service.url}/openapi.json`, `--report-har-path=${log}`],
      { cwd: dir, maxBuffer: 1 << 28 },
    ).then(
      ({ stdout }) => ({ failed: false, said: stdout }),
      (err: { stdout?: string; message: string }) => ({ failed: true, said: err.stdout || err.message }),
    );
    const har = await readFile(log, 'utf8');
    const entries = (JSON.parse(har) as Har).log.entries;
    assert.ok(!fuzzed.failed, fuzzed.said);
    assert.ok(entries.length > 500, `only ${entries.length} calls were made`);
    const late = entries.filter(({ response }) => response.status === 503);
    assert.ok(late.length <= entries.length / 100, `${late.length} of ${entries.length} calls got 503`);
    for (const { response } of late) {
      assert.match(response.content.text ?? '', /"temporarily_unavailable"/);
    }

    const texts = entries.map(({ response }) => response.content.text ?? '');
    const odd = texts.find((text) => /node_modules|dist\/src|\.[jt]s:\d+|node:internal/.test(text));
    assert.equal(odd, undefined);
    assert.ok(!texts.some((text) => text.includes(account.client_secret)));
    assert.doesNotMatch(service.said(), /unexpected error/);
    assert.equal((await fetch(`${service.url}/readyz`)).status, 200);
  });
});

interface Har {
  log: {
    entries: {
      request: { method: string; url: string };
      response: { status: number; content: { text?: string } };
    }[];
  };
}

/** Returns Schemathesis as a program and its first arguments; pip installs it under `.cache/` at first use. */
async function fuzzer(): Promise<[program: string, ...args: string[]]> {
  const requirements = join(import.meta.dirname, 'requirements.txt');
  const home = await installed('schemathesis', [requirements], (home) => makeVenv(home, requirements));
  // Not bin/st: a script names its interpreter by an absolute path, and the folder was moved into place.
  return [join(home, 'bin', 'python3'), '-m', 'schemathesis.cli'];
}
