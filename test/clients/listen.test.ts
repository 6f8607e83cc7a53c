import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { freePort } from '../../local/ports.js';
import { callRaw, statusesIn } from '../api/rawCaller.js';
import { foreign } from '../examples/vectors.js';
import { type Program, startProgram, startService } from '../program.js';
import { newPublisher, type Publisher } from '../publisher.js';
import { startReceiver, until } from '../receiver.js';
import { forSuite, openForSuite } from '../servers.js';

describe('clients/listen', () => {
  const service = openForSuite(() => startService({ LOG_LEVEL: 'warn', ATTEMPT_TIMEOUT_SECONDS: '3' }));
  const publisher = forSuite(() => newPublisher(service));
  let listen: Listen | undefined;

  afterEach(async () => {
    await listen?.stop('SIGINT');
    listen = undefined;
  });

  const call: Publisher['call'] = (...asked) => publisher.call(...asked);

  async function newSite(): Promise<{ client_token: string; secret: string }> {
    const client_token = await publisher.newClient();
    const { signing_secret } = await call('GET', 'push_notifications/signing_secret', { client_token });
    return { client_token, secret: String(signing_secret) };
  }

  async function seen(count: number): Promise<Seen[]> {
    return await until(`${count} requests`, () => {
      const all = listen?.seen() ?? [];
      return all.length >= count && all;
    });
  }

  it('shows a notification of the service as good, its redelivery as a duplicate, and answers 204', async () => {
    const { client_token, secret } = await newSite();
    listen = await startListen(['--json'], secret);
    const url = `${listen.url}/notifications?key=of-the-url`;
    await publisher.register(client_token, url);
    const id = await publisher.publish(client_token, 'video-1');
    await seen(1);
    await call('POST', `notifications/${id}/redeliver`, { client_token });
    const [first, again] = await seen(2);
    for (const one of [first, again]) {
      assert.deepEqual(
        [one?.signature, one?.webhook_id, one?.client_token, one?.method, one?.path, one?.answered],
        ['good', id, client_token, 'POST', '/notifications', 204],
      );
      assert.equal(one?.body, '{"event":"asset-update","platform_id":"video-1"}');
      assert.ok(one?.age_seconds !== null && Math.abs(one?.age_seconds ?? 99) <= 30);
    }
    assert.deepEqual([first?.duplicate, again?.duplicate], [false, true]);
    await until('the service has both', async () => {
      const { attempts } = await call('GET', `notifications/${id}`, { client_token });
      return (attempts as { status: number }[]).map(({ status }) => status).join() === '204,204';
    });
    assert.equal(await listen.stop('SIGINT'), 0);
    assert.match(listen.stderr, /^2 good, 1 of them duplicates; 0 bad\.$/m);
    assert.doesNotMatch(listen.stdout + listen.stderr, /whsec_|of-the-url/);
  });

  it("says why the bad notifications of the service's check are bad, and passes the check", async () => {
    const { client_token, secret } = await newSite();
    listen = await startListen(['--json'], secret);
    const { checks } = await call('POST', 'push_notifications/check', { client_token, url: listen.url });
    assert.deepEqual(
      (checks as { name: string; verdict: string }[]).map(({ name, verdict }) => `${name} ${verdict}`),
      ['good ok', 'wrong_signature ok', 'old_timestamp ok', 'twice ok', 'slow ok'],
    );
    const bad = (await seen(5)).filter(({ signature }) => signature === 'bad');
    const answers = bad.map(({ answered }) => answered);
    assert.deepEqual(answers, [401, 401]);
    assert.match(String(bad[0]?.why), /^no signature matches: made with another secret/);
    assert.match(String(bad[1]?.why), /^webhook-timestamp is 36\d\d s old, 300 s are allowed/);
    assert.equal(listen.seen().filter(({ duplicate }) => duplicate).length, 1);
  });

  it('accepts a signature by any of several secrets, and by no other', async () => {
    const { client_token, secret } = await newSite();
    const secrets: [string, Seen['signature']][] = [
      [`${foreign} ${secret}`, 'good'],
      [foreign, 'bad'],
    ];
    for (const [held, signature] of secrets) {
      listen = await startListen(['--json'], held);
      await call('POST', 'push_notifications/test', { client_token, url: listen.url });
      assert.equal((await seen(1))[0]?.signature, signature);
      await listen.stop('SIGINT');
    }
  });

  it('answers 401 to whatever has no valid signature, as its first line says', async () => {
    listen = await startListen(['--json'], foreign);
    const statuses = [];
    for (const init of [{}, { method: 'PUT', body: '{}' }, { method: 'POST', body: 'a'.repeat(70_000) }])
      statuses.push((await fetch(listen.url, init)).status);
    const odd = 'GET / HTTP/1.1\r\nexpect: a miracle\r\nconnection: close\r\n\r\n';
    statuses.push(...statusesIn(await callRaw(listen.url, odd).closed));
    assert.deepEqual(statuses, [401, 401, 401, 401]);
    const [get, put] = ['GET', 'PUT'].map((name) => `the method is ${name}; notifications use POST`);
    const reasons = (await seen(4)).map(({ why }) => why);
    assert.deepEqual(reasons, [get, put, 'over 65536 bytes', get]);
  });

  const unreadable: [what: string, bytes: string, code: string][] = [
    ['what is not HTTP, such as TLS', '\x16\x03\x01\x02\0', 'HPE_INVALID_METHOD'],
    [
      'headers that are too long',
      `POST / HTTP/1.1\r\nhost: x\r\na: ${'b'.repeat(20_000)}\r\n\r\n`,
      'HPE_HEADER_OVERFLOW',
    ],
    ['for a proxy', 'CONNECT a:443 HTTP/1.1\r\nhost: a:443\r\n\r\n', 'CONNECT'],
    ['half a body', 'POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n{', 'HPE_INVALID_EOF_STATE'],
  ];
  it('says that it could not read a request, and why', async () => {
    const started = await startListen(['--json'], foreign);
    listen = started;
    for (const [what, bytes, code] of unreadable) {
      connect(Number(new URL(started.url).port), '127.0.0.1')
        .on('error', () => undefined)
        .end(bytes);
      await started.until(what, async () => started.stderr.endsWith(`(HTTPS is not supported): ${code}\n`));
    }
  });

  it('listens on 127.0.0.1 only', async () => {
    listen = await startListen([], foreign);
    assert.match(listen.url, /^http:\/\/127\.0\.0\.1:\d+$/);
    const elsewhere = listen.url.replace('127.0.0.1', '127.0.0.2');
    await assert.rejects(fetch(elsewhere, { method: 'POST' }));
  });

  it('follows updates from now on, and ends where the service refuses', async () => {
    const { client_token } = await newSite();
    await publisher.publish(client_token, 'before');
    const follow = (...args: string[]) =>
      start(['--updates', service.url, '--client', client_token, '--json', ...args], {
        ACCESS_TOKEN: publisher.token,
      });
    const following = follow();
    await following.until('it follows', async () => /from now on/.test(following.stderr));
    await publisher.publish(client_token, 'video-1');
    await following.until('it shows the update', async () => following.stdout.endsWith('\n'));
    assert.equal(JSON.parse(following.stdout).platform_id, 'video-1');
    assert.equal(await following.stop('SIGINT'), 0);
    const refused = follow('--client', 'nobody');
    assert.equal(await refused.ended, 1);
    assert.match(refused.stderr, /refuses to list updates: 404/);
    assert.equal(await start(['--updates', service.url]).ended, 2);
    for (const wrong of ['tok-1\ntok-2', '“tok-1”']) {
      const unsendable = start(['--updates', service.url, '--client', 'x'], { ACCESS_TOKEN: wrong });
      assert.equal(await unsendable.ended, 2);
      assert.match(unsendable.stderr, /ACCESS_TOKEN is no access token/);
      assert.doesNotMatch(unsendable.stderr, /tok-1/);
    }
    const access = { ACCESS_TOKEN: `\n${publisher.token}\n` };
    const away = start(
      ['--updates', `http://127.0.0.1:${await freePort()}`, '--client', client_token],
      access,
    );
    await away.until('it says why', async () => /No answer \(connect ECONNREFUSED/.test(away.stderr));
    await away.stop('SIGINT');
    const busy = await startReceiver();
    const inHours = new Date(Date.now() + 9_600_000).toUTCString();
    for (const [retryAfter, seconds, date] of [
      ['7', '7'],
      ['Sun, 06 Nov 1994 08:49:46 GMT', '9', 'Sun, 06 Nov 1994 08:49:37 GMT'],
      [inHours, '9\\d{3}'],
      ['soon', '2'],
    ] as const) {
      const headers = { 'retry-after': retryAfter, ...(date && { date }) };
      busy.answer = () => ({ status: 429, headers, body: '{"msg":"too many"}' });
      const waiting = start(['--updates', busy.url, '--client', client_token], access);
      await waiting.until('it says how long', async () => waiting.stderr !== '');
      assert.match(waiting.stderr, new RegExp(`^No answer \\(429: too many\\): .* in ${seconds} s.\\n`));
      await waiting.stop('SIGINT');
    }
    busy.answer = () => ({ status: 403, body: '{"message":"Forbidden"}' });
    const proxied = start(['--updates', busy.url, '--client', client_token], access);
    assert.equal(await proxied.ended, 1);
    assert.match(proxied.stderr, /: 403: not an answer of the service\n$/);
    busy.answer = () => ({ status: 200, body: '<html>' });
    const portal = start(['--updates', busy.url, '--client', 'x', '--forward', busy.url], access);
    assert.equal(await portal.ended, 1);
    assert.match(portal.stderr, /signing_secret: 200: not an answer of the service\n$/);
  });

  it('forwards a real event to a receiver that nobody can reach, without a registered URL, and one of them again', async () => {
    const { client_token, secret } = await newSite();
    listen = await startListen(['--json'], secret);
    const forward = (to: string, ...args: string[]) =>
      start(['--updates', service.url, '--client', client_token, '--forward', to, ...args], {
        ACCESS_TOKEN: publisher.token,
      });
    const forwarding = forward(`${listen.url}/hook`);
    await forwarding.until('it follows', async () => /from now on/.test(forwarding.stderr));
    await publisher.publish(client_token, 'video-1');
    const [first] = await seen(1);
    assert.deepEqual([first?.signature, first?.path, first?.answered], ['good', '/hook', 204]);
    assert.equal(first?.body, '{"event":"asset-update","platform_id":"video-1"}');
    await forwarding.until('it shows the answer', async () =>
      /video-1 {2}\S+ {2}-> 204 after/.test(forwarding.stdout),
    );
    assert.equal(await forwarding.stop('SIGINT'), 0);
    assert.doesNotMatch(forwarding.stdout + forwarding.stderr, /whsec_/);

    await publisher.register(client_token, listen.url);
    const id = await publisher.publish(client_token, 'video-2');
    await seen(2);
    assert.equal(await forward(listen.url, '--replay', id).ended, 0);
    const again = (await seen(3))[2];
    assert.deepEqual([again?.webhook_id, again?.duplicate], [id, true]);
    const rotated = { ACCESS_TOKEN: ` ${publisher.token}\n`, SIGNING_SECRETS: `${foreign} ${secret}` };
    const way = ['--updates', service.url, '--client', client_token, '--forward', listen.url];
    assert.equal(await start([...way, '--replay', id], rotated).ended, 0);
    assert.equal((await seen(4))[3]?.signature, 'good', 'as the service, it signs with every secret');
    const unknown = forward(listen.url, '--replay', `msg_${'x'.repeat(22)}`);
    assert.equal(await unknown.ended, 1);
    assert.match(unknown.stderr, /notifications\/msg_x+: 404/);
    const nobody = forward('http://127.0.0.1:9/', '--replay', id);
    assert.equal(await nobody.ended, 1);
    assert.match(nobody.stdout, /no answer \(.+\) after/);
    for (const useless of ['localhost:3000', '/hook', 'ftp://h', 'http://u:p@h']) {
      assert.equal(await forward(useless, '--replay', id).ended, 2);
      assert.equal(await start(['--updates', useless, '--client', client_token]).ended, 2);
    }
    for (const [name, value] of Object.entries({ replay: id, client: client_token, forward: listen.url })) {
      const alone = start([`--${name}`, value], { SIGNING_SECRETS: secret });
      assert.equal(await alone.ended, 2, alone.stderr);
      assert.match(alone.stderr, new RegExp(`^--${name} needs --updates`));
    }
  });

  it('ends and says why if the secret is an argument', async () => {
    const started = start(['--secret', foreign]);
    assert.deepEqual([await started.ended, started.stdout], [2, '']);
    const { stderr } = started;
    assert.doesNotMatch(stderr, /\n +at |whsec_[A-Za-z0-9]/);
    assert.match(stderr, /^Put the secret into SIGNING_SECRETS: arguments are visible in the process list/);
  });
});

const folder = join(import.meta.dirname, '../../clients/listen');
const manifest = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
const bin = join(folder, manifest.bin);

/** One line of `--json`. */
interface Seen {
  signature: 'good' | 'bad';
  why?: string;
  webhook_id: string | null;
  duplicate: boolean;
  age_seconds: number | null;
  client_token: string | null;
  method: string;
  path: string;
  body: string;
  answered: number | null;
  after_ms: number;
}

interface Listen extends Program {
  url: string;
  /** The requests that `--json` has printed. */
  seen(): Seen[];
}

const start = (args: readonly string[], env: NodeJS.ProcessEnv = {}): Program =>
  startProgram(process.execPath, [bin, ...args], { env });

async function startListen(args: readonly string[], secrets: string): Promise<Listen> {
  const program = start(['--port', '0', ...args], { SIGNING_SECRETS: secrets });
  const urlOf = () => /Listening at (\S+),/.exec(program.stderr)?.[1] ?? '';
  await program.until('it listens', async () => urlOf());
  return Object.assign(program, {
    url: urlOf(),
    seen: () =>
      program.stdout
        .split('\n')
        .filter((line) => line !== '')
        .map((line) => JSON.parse(line) as Seen),
  });
}
