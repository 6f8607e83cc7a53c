import assert from 'node:assert/strict';
import { brotliCompressSync, constants, deflateSync, gzipSync } from 'node:zlib';
import Koa from 'koa';
import { connectionLimits, listen } from '../../src/api/server.js';
import { createLogger } from '../../src/log.js';
import { type Db, openDb, waitForRedis } from '../../src/redis/connection/db.js';
import { createAccount } from '../../src/redis/records/accounts.js';
import { createClient } from '../../src/redis/records/clients.js';
import { type Service, startService } from '../program.js';
import { until } from '../receiver.js';
import { servers } from '../servers.js';
import { callRaw, type RawCaller, statusesIn } from './rawCaller.js';

const mib = 1024 * 1024;

describe('bad input on a raw socket', () => {
  let service: Service;
  let db: Db;
  let token: string;
  let secret: string;
  let residentBefore: number;

  before(async () => {
    service = await startService({ LOG_LEVEL: 'warn' }, 'api');
    db = openDb({ url: servers().redisUrl, prefix: service.prefix, log: createLogger('silent', 'test') });
    await waitForRedis(db, 5000);
    const scopes = ['enrichments'];
    const account = await createAccount(db, { name: 'Example Platform', scopes });
    await createClient(db, { accountId: account.account_id, name: 'Example Site', clientToken: 'SITE0042' });
    secret = account.client_secret;
    const fields = {
      grant_type: 'none',
      client_id: account.client_id,
      client_secret: secret,
      scope: scopes[0] ?? '',
    };
    const answer = await fetch(`${service.url}/oauth/access_token`, {
      method: 'POST',
      body: new URLSearchParams(fields),
    });
    token = ((await answer.json()) as { access_token: string }).access_token;
    residentBefore = await resident();
  });
  after(async () => {
    db.redis.disconnect();
    await service.stop();
  });

  /** Bytes of memory that the service holds, as it says itself. */
  async function resident(): Promise<number> {
    const text = await (await fetch(`${service.adminUrl}/metrics`)).text();
    return Number(/^process_resident_memory_bytes (\d+)/m.exec(text)?.[1]);
  }

  const head = (line: string, ...headers: string[]) =>
    [`${line} HTTP/1.1`, 'host: x', 'connection: close', ...headers, '', ''].join('\r\n');
  const post = (body: string | Buffer, ...headers: string[]) =>
    Buffer.concat([
      Buffer.from(
        head(
          'POST /enrichments',
          `authorization: Bearer ${token}`,
          'content-type: application/json',
          `content-length: ${Buffer.byteLength(body)}`,
          ...headers,
        ),
      ),
      Buffer.from(body),
    ]);
  const event = (more: string) =>
    `{"client_token":"SITE0042","platform_id":"v","segments":[],"notify":false${more}}`;
  const chunked = (...pieces: string[]) =>
    head(
      'POST /enrichments',
      `authorization: Bearer ${token}`,
      'content-type: application/json',
      'transfer-encoding: chunked',
    ) + pieces.join('');
  const numbered = (count: number) => Array.from({ length: count }, (_, i) => `${i.toString(36)}`).join('&');
  const zeros = Buffer.alloc(50 * mib);
  const fastest = { params: { [constants.BROTLI_PARAM_QUALITY]: 1 } };

  /** The bytes sent, and the allowed statuses of the last answer; [] for a connection closed without one. */
  const cases: Record<string, [send: () => string | Buffer, ...answers: number[]]> = {
    // Bytes that are no text
    'invalid UTF-8 in a JSON body': [() => post(Buffer.from(event(',"event_id":"\xff"'), 'latin1')), 400],
    'invalid UTF-8 in a name of JSON': [() => post(Buffer.from(event(',"\xc3\x28":1'), 'latin1')), 400],
    'invalid UTF-8 in a percent-encoded path': [
      () => head('GET /assets/%ff%fe?client_token=SITE0042', `authorization: Bearer ${token}`),
      404,
    ],
    'a broken percent-encoding in a path': [
      () => head('GET /assets/%zz%?client_token=SITE0042', `authorization: Bearer ${token}`),
      404,
    ],
    'a broken percent-encoding in a query': [
      () => head('GET /push_notifications?client_token=%zz%', `authorization: Bearer ${token}`),
      400,
    ],
    'bytes over 127 in a path': [() => Buffer.from(head('GET /assets/\xff\xfe'), 'latin1'), 400, 401],
    'bytes over 127 in the Authorization': [
      () => Buffer.from(head('GET /clients', 'authorization: Bearer \xff\xfe'), 'latin1'),
      401,
    ],
    'NUL in a path': [() => head('GET /clients\0'), 400],
    'NUL in a header': [() => head('GET /clients', 'authorization: Bearer a\0b'), 400],
    'NUL in an encoded path': [
      () => head('GET /notifications/%00?client_token=SITE0042', `authorization: Bearer ${token}`),
      404,
    ],
    'NUL in JSON': [() => post(event(',"event_id":"\\u0000"')), 400],
    'a NUL byte in JSON': [() => post(event(',"event_id":"\0"')), 400],
    // Names and numbers
    'a repeated name in JSON: the last one counts': [() => post(event(',"notify":"x","notify":false')), 202],
    '__proto__ in JSON': [() => post(event(',"__proto__":{"priority":"live"}')), 400],
    'constructor.prototype in JSON': [() => post(event(',"constructor":{"prototype":{"x":1}}')), 400],
    '__proto__ with events in JSON': [() => post(`{"__proto__":{"events":[${event('')}]}}`), 400],
    '__proto__ and constructor in a query': [
      () =>
        head(
          'GET /notifications?client_token=SITE0042&__proto__=1&constructor=2&__proto__[x]=3',
          `authorization: Bearer ${token}`,
        ),
      400,
    ],
    'a number of 100,000 digits': [() => post(event(`,"event_id":${'9'.repeat(100_000)}`)), 400],
    'JSON 500,000 lists deep': [() => post('['.repeat(500_000) + ']'.repeat(500_000)), 400],
    'JSON 90,000 objects deep': [() => post(`${'{"events":'.repeat(90_000)}1${'}'.repeat(90_000)}`), 400],
    'segments 400,000 lists deep': [
      () => post(event(`,"event_id":${'['.repeat(400_000)}${']'.repeat(400_000)}`)),
      400,
    ],
    '1 MiB of names': [
      () => post(`{${Array.from({ length: 80_000 }, (_, i) => `"k${i}":0`).join()}}`.slice(0, mib)),
      400,
    ],
    '100,000 events that are none': [() => post(`{"events":[${'0,'.repeat(99_999)}0]}`), 400],
    // Packed bodies
    'a gzip bomb': [() => post(gzipSync(zeros), 'content-encoding: gzip'), 413],
    'a deflate bomb': [() => post(deflateSync(zeros), 'content-encoding: deflate'), 413],
    'a brotli bomb': [() => post(brotliCompressSync(zeros, fastest), 'content-encoding: br'), 413],
    // Framing
    'a chunk of a huge size': [() => chunked('ffffffffffffffffff\r\n'), 400],
    'a chunk longer than its size': [() => chunked('1\r\nabc\r\n0\r\n\r\n'), 400],
    'a chunk with an endless extension': [() => chunked(`1;${'x'.repeat(100_000)}\r\n`), 400, 413, 431],
    'endless trailers': [() => chunked('2\r\n{}\r\n0\r\n', 'x-more: 1\r\n'.repeat(20_000)), 400, 431],
    'a chunked body over 1 MiB': [() => chunked(`200000\r\n${'x'.repeat(2 * mib)}\r\n0\r\n\r\n`), 413],
    'a body in chunks of one byte': [
      () => chunked('1\r\n \r\n'.repeat(300_000), '2\r\n{}\r\n0\r\n\r\n'),
      400,
    ],
    'chunked and a length': [() => chunked('').replace('\r\n\r\n', '\r\ncontent-length: 3\r\n\r\n'), 400],
    'two lengths': [() => post('{}', 'content-length: 3'), 400],
    'a length of 20 digits': [() => head('POST /enrichments', 'content-length: 99999999999999999999'), 400],
    'a length below the body': [() => post('{}{}').toString().replace('length: 4', 'length: 2'), 400],
    'a length over 1 MiB, nothing sent': [
      () =>
        head(
          'POST /enrichments',
          `authorization: Bearer ${token}`,
          'content-type: application/json',
          'content-length: 99999999',
        ),
      413,
    ],
    // Heads
    'a header of 40 KiB': [() => head('GET /healthz', `x-long: ${'x'.repeat(40_000)}`), 431],
    '20,000 headers': [() => head('GET /healthz', ...Array.from({ length: 20_000 }, () => 'x: 1')), 431],
    'a path of 40 KiB': [() => head(`GET /${'x'.repeat(40_000)}`), 431, 414],
    '6,000 parameters': [() => head(`GET /clients?${numbered(6_000)}`, 'authorization: Bearer x'), 400],
    'a folded header': [() => head('GET /healthz', 'x: 1\r\n folded'), 400],
    'a blank before the colon': [() => head('GET /healthz', 'x : 1'), 400],
    'two hosts': [() => head('GET /healthz', 'host: y'), 400, 200],
    'a path of dots': [() => head('GET /../../etc/passwd'), 404],
    CONNECT: [() => head('CONNECT elsewhere.example:443')],
    'Expect: 100-continue': [() => post(event(''), 'expect: 100-continue'), 202],
  };

  for (const [name, [send, ...answers]] of Object.entries(cases)) {
    it(`${name}: ${answers.join(' or ') || 'closed'}`, async () => {
      const heard = await callRaw(service.url, send()).closed;
      const last = statusesIn(heard).at(-1);
      assert.ok(last === undefined ? answers.length === 0 : answers.includes(last), heard.slice(0, 500));
      assertTellsNothing(heard);
    });
  }

  function assertTellsNothing(heard: string): void {
    assert.doesNotMatch(heard, /node_modules|dist\/src|node:internal|\.[jt]s:\d+/);
    assert.ok(!heard.includes(token) && !heard.includes(secret));
  }

  it('reads the fields of a form with __proto__, constructor and NUL bytes as they are', async () => {
    const body =
      '__proto__=1&constructor=2&toString=3&grant_type=none&client_id=%00&client_secret=%00x&scope=%00';
    const heard = await callRaw(
      service.url,
      head(
        'POST /oauth/access_token',
        'content-type: application/x-www-form-urlencoded',
        `content-length: ${body.length}`,
      ) + body,
    ).closed;
    assert.match(heard, /"invalid_client"/);
  });

  it('answers others beside 500 idle connections, 100 half requests and 100 slow bodies', async () => {
    const callers: RawCaller[] = [];
    for (let i = 0; i < 500; i++) callers.push(callRaw(service.url));
    for (let i = 0; i < 100; i++)
      callers.push(callRaw(service.url, 'POST /enrichments HTTP/1.1\r\nhost: x\r\nx-ha'));
    for (let i = 0; i < 100; i++) callers.push(callRaw(service.url, post(event('')).subarray(0, -20)));
    await Promise.all(
      callers.map(({ socket }) => socket.pending && new Promise((r) => socket.once('connect', r))),
    );
    assert.equal((await fetch(`${service.url}/healthz`)).status, 200);
    const bearer = { authorization: `Bearer ${token}` };
    assert.equal((await fetch(`${service.url}/clients`, { headers: bearer })).status, 200);
    for (const { socket } of callers) socket.destroy();
  });

  it('is alive after all of it, with nothing unexpected in the log and no growth of memory', async () => {
    assert.equal((await fetch(`${service.url}/readyz`)).status, 200);
    assert.doesNotMatch(service.said(), /unexpected error|"level":(50|60)/);
    assert.ok(!service.said().includes(token));
    // Node gives memory back late: far more than this would have been held by any of the cases that kept it.
    const grownMib = ((await resident()) - residentBefore) / mib;
    assert.ok(grownMib < 200, `${Math.round(grownMib)} MiB`);
  });
});

describe('a slow caller', () => {
  const short = {
    ...connectionLimits,
    headersTimeoutMs: 200,
    requestTimeoutMs: 400,
    checkEveryMs: 50,
    silenceMs: 500,
    connections: 3,
  };
  let url: string;
  let close: () => Promise<void>;
  let cut = false;

  before(async () => {
    const app = new Koa();
    app.silent = true;
    app.use(async (ctx) => {
      if (ctx.path === '/long') {
        ctx.res.once('close', () => {
          cut = true;
        });
        ctx.body = Buffer.alloc(20 * mib);
        return;
      }
      for await (const _ of ctx.req);
      ctx.body = 'done';
    });
    const server = await listen({ HOST: '127.0.0.1', PORT: 0 }, app, short);
    url = `http://127.0.0.1:${server.port}`;
    close = () => server.close();
  });
  after(() => close());

  it('gets 408 and a closed connection when it sends nothing, half a head or half a body', async () => {
    const late = await Promise.all([
      callRaw(url).closed,
      callRaw(url, 'GET / HTTP/1.1\r\nho').closed,
      callRaw(url, 'POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\nabc').closed,
    ]);
    for (const heard of late) assert.deepEqual(statusesIn(heard), [408]);
  });

  it('gets 408 when it sends one byte at a time', async () => {
    for (const begin of [
      'GET / HTTP/1.1\r\nx: ',
      'POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 9999\r\n\r\n',
    ]) {
      const caller = callRaw(url, begin);
      const more = setInterval(() => caller.socket.write('a'), 20);
      const heard = await caller.closed;
      clearInterval(more);
      assert.deepEqual(statusesIn(heard), [408]);
    }
  });

  it('loses its connection when it does not read its answer', async () => {
    const caller = callRaw(url, 'GET /long HTTP/1.1\r\nhost: x\r\n\r\n');
    caller.socket.once('data', () => caller.socket.pause());
    await until('it was cut', () => cut);
    caller.socket.resume();
    assert.ok((await caller.closed).length < 20 * mib);
  });

  it('is closed without an answer beyond the limit of connections, and accepted again when others have gone', async () => {
    const callers = Array.from({ length: short.connections }, () => callRaw(url));
    await Promise.all(callers.map(({ socket }) => new Promise((resolve) => socket.once('connect', resolve))));
    const ask = () => callRaw(url, 'GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n').closed;
    await until('it is too many', async () => (await ask()) === '');
    for (const { socket } of callers) socket.destroy();
    await until('it is taken', async () => statusesIn(await ask())[0] === 200);
  });
});
