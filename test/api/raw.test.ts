import assert from 'node:assert/strict';
import { brotliCompressSync, constants, gzipSync } from 'node:zlib';
import Koa from 'koa';
import { createApi } from '../../src/api/app.js';
import { type ErrorCode, errors } from '../../src/http/errors.js';
import { connectionLimits, type ListeningServer, listen } from '../../src/http/server.js';
import { startService } from '../program.js';
import { newPublisher } from '../publisher.js';
import { until } from '../receiver.js';
import { forSuite, openForSuite } from '../servers.js';
import { sharedHarness } from '../service.js';
import { callRaw, type RawCaller, statusesIn } from './rawCaller.js';

const mib = 1024 * 1024;
const formType = 'content-type: application/x-www-form-urlencoded';
const bare = (line: string, ...headers: string[]) => [`${line} HTTP/1.1`, ...headers, '', ''].join('\r\n');
const head = (line: string, ...headers: string[]) => bare(line, 'host: x', 'connection: close', ...headers);

/** Checks that an answer has the form of every error, or under /oauth that of RFC 6749. */
function assertProblem(heard: string): void {
  const body = JSON.parse(heard.slice(heard.lastIndexOf('\r\n\r\n'))) as Record<string, string>;
  if ('error' in body) {
    assert.deepEqual(Object.keys(body), ['error', 'error_description']);
    return;
  }
  assert.deepEqual(Object.keys(body), ['msg', 'code', 'type', 'title', 'request_id']);
  assert.equal(errors[body.code as ErrorCode].status, statusesIn(heard).at(-1));
  assert.match(heard, new RegExp(`^x-request-id: ${body.request_id}\r$`, 'im'));
  assert.match(heard, /^content-type: application\/json; charset=utf-8\r$/im);
  assert.match(heard, /^connection: close\r$/im);
}

describe('bad input on a raw socket', () => {
  const service = openForSuite(() => startService({ LOG_LEVEL: 'warn' }, 'api'));
  const publisher = forSuite(() => newPublisher(service));
  let bearer: string;
  let residentBefore: number;

  before(async () => {
    bearer = `authorization: Bearer ${publisher.token}`;
    residentBefore = await resident();
  });

  /** Bytes of memory that the service holds, as it says itself. */
  async function resident(): Promise<number> {
    const text = await service.metrics();
    return Number(/^process_resident_memory_bytes (\d+)/m.exec(text)?.[1]);
  }

  const get = (target: string, ...headers: string[]) => head(`GET ${target}`, bearer, ...headers);
  const postHead = (...headers: string[]) =>
    head('POST /enrichments', bearer, 'content-type: application/json', ...headers);
  const post = (body: string | Buffer, ...headers: string[]) =>
    Buffer.concat([
      Buffer.from(postHead(`content-length: ${Buffer.byteLength(body)}`, ...headers)),
      Buffer.from(body),
    ]);
  const event = (more: string) =>
    `{"client_token":"NOBODY","platform_id":"v","segments":[],"notify":false${more}}`;
  const chunked = (...pieces: string[]) => postHead('transfer-encoding: chunked') + pieces.join('');
  const latin1 = (text: string) => Buffer.from(text, 'latin1');
  const zeros = Buffer.alloc(50 * mib);
  const fastest = { params: { [constants.BROTLI_PARAM_QUALITY]: 1 } };

  /** The bytes sent, and the allowed statuses of the last answer; none for a connection closed without one. */
  const cases: Record<string, [send: () => string | Buffer, ...answers: number[]]> = {
    // Bytes that are no text
    'invalid UTF-8 in a name of JSON': [() => post(latin1(event(',"\xc3\x28":1'))), 400],
    'an address that is not closed in a target': [() => head('GET http://[::1'), 400],
    'a user and half an address in a target': [() => head('GET http://a:b@[/x'), 400],
    'a target without a host': [() => head('GET http://'), 400],
    'NUL in a path': [() => head('GET /clients\0'), 400],
    'NUL in JSON': [() => post(event(',"event_id":"\\u0000"')), 400],
    // Names and numbers
    'a repeated name in JSON': [() => post(event(',"notif\\u0079" :false')), 400],
    '__proto__ in JSON': [() => post(event(',"__proto__":{"priority":"live"}')), 400],
    'constructor.prototype in JSON': [() => post(event(',"constructor":{"prototype":{"x":1}}')), 400],
    'JSON 500,000 lists deep': [() => post('['.repeat(500_000) + ']'.repeat(500_000)), 400],
    // Packed bodies
    'a gzip bomb': [() => post(gzipSync(zeros), 'content-encoding: gzip'), 413],
    'a brotli bomb': [() => post(brotliCompressSync(zeros, fastest), 'content-encoding: br'), 413],
    // Framing
    'endless trailers': [() => chunked('2\r\n{}\r\n0\r\n', 'x-more: 1\r\n'.repeat(20_000)), 400, 431],
    'a chunked body over 1 MiB': [() => chunked(`200000\r\n${'x'.repeat(2 * mib)}\r\n0\r\n\r\n`), 413],
    'chunks of one byte': [() => chunked('1\r\n \r\n'.repeat(300_000), '2\r\n{}\r\n0\r\n\r\n'), 400],
    'a length below the body': [() => post('{}{}').toString().replace('length: 4', 'length: 2'), 400],
    // Heads
    'no Host': [() => bare('GET /healthz', 'connection: close'), 400],
    'two Hosts': [() => head('GET /healthz', 'host: y'), 400],
    'two tokens': [() => get('/clients', 'authorization: Bearer another'), 400],
    'two content types': [() => postHead('content-type: text/plain', 'content-length: 0'), 400],
    'an empty expectation': [() => head('GET /healthz', 'expect:'), 200],
    'an expectation': [() => head('GET /healthz', 'expect: a miracle'), 417],
    'a header of 40 KiB': [() => head('GET /healthz', `x-long: ${'x'.repeat(40_000)}`), 431],
    // Node by itself leaves out all after 2,000.
    'a token behind 3,000 headers': [() => head('GET /clients', ...Array(3_000).fill('x:'), bearer), 200],
    'a path of dots': [() => head('GET /../../etc/passwd'), 404],
    'Expect: 100-continue': [() => post(event(''), 'expect: 100-continue'), 404],
    'names like properties, and NUL, in a form': [
      () => {
        const body = '__proto__=1&constructor=2&grant_type=none&client_id=%00&client_secret=%00x&scope=%00';
        return head('POST /oauth/access_token', formType, `content-length: ${body.length}`) + body;
      },
      401,
    ],
  };

  for (const [name, [send, ...answers]] of Object.entries(cases)) {
    it(`${name}: ${answers.join(' or ') || 'closed'}`, async () => {
      const heard = await callRaw(service.url, send()).closed;
      const last = statusesIn(heard).at(-1);
      assert.ok(last === undefined ? answers.length === 0 : answers.includes(last), heard.slice(0, 500));
      if (last !== undefined && last >= 400) assertProblem(heard);
      assert.doesNotMatch(heard, /node_modules|dist\/src|node:internal|\.[jt]s:\d+/);
      for (const secret of [publisher.token, publisher.account.client_secret])
        assert.ok(!heard.includes(secret));
    });
  }

  for (const method of ['get', 'post', 'put', 'delete', 'patch', 'options', 'head'])
    it(`${method} in lower or mixed case is named, also after another request`, async () => {
      const capital = method.toUpperCase();
      for (const written of [method, `${capital[0]}${method.slice(1)}`, `${method[0]}${capital.slice(1)}`])
        for (const target of ['/clients', '/clients?a=b', 'http://x/clients'])
          for (const before of ['', bare('GET /healthz', 'host: x')]) {
            const heard = await callRaw(service.url, before + head(`${written} ${target}`)).closed;
            assert.match(heard, new RegExp(`"The method is written in capital letters: ${capital}"`));
            assert.match(heard, /HTTP\/1\.1 400 [\s\S]*"code":"malformed_request"/);
          }
    });

  it('answers Expect: 100-continue with the final status where the head says enough, and else asks for the body', async () => {
    const expect = 'expect: 100-continue';
    const length = 'content-length: 9999999';
    const type = 'content-type: application/json';
    const toDesk = head('POST /desk/open', 'origin: http://x', formType, length, expect);
    for (const [sent, status, url = service.url] of [
      [toDesk, 413, service.adminUrl],
      [postHead(length, expect), 413],
      [head('POST /enrichments', type, length, expect), 401],
      [head('POST /enrichments', bearer, 'content-type: text/plain', length, expect), 415],
      [head('POST /oauth/access_token', type, length, expect), 415],
      [head('POST /nowhere', length, expect), 404],
      [postHead('content-length: 2', expect), 100],
    ] as const) {
      const caller = callRaw(url, sent);
      await until('it is answered', () => statusesIn(caller.heard()).length > 0);
      assert.equal(statusesIn(caller.heard())[0], status);
      caller.socket.destroy();
    }
  });

  it('lets a caller send what it refuses before it closes the connection: a long body, also of a page, or what is no HTTP', async () => {
    const form = ['origin: http://x', formType];
    const rest = Buffer.alloc(6 * mib, ' ');
    const length = `content-length: ${rest.length}`;
    for (const [url, begin, status] of [
      [service.url, postHead(length), 413],
      [service.url, head('POST /console/open', length, ...form), 413],
      [service.adminUrl, head('POST /desk/open', length, ...form), 413],
      [service.url, postHead(length, 'a name: with a blank'), 400],
      [service.url, chunked('zz\r\n'), 400],
      [service.url, head('CONNECT x.example:443'), 400],
    ] as const) {
      const { socket, heard, closed } = callRaw(url, begin);
      // A caller that reads nothing until it has sent all; it would see a broken pipe.
      socket.pause();
      const broken = new Promise((_, reject) => socket.once('error', reject));
      for (let at = 0; at < rest.length; at += mib)
        await Promise.race([
          broken,
          new Promise((resolve) => socket.write(rest.subarray(at, at + mib), resolve)),
        ]);
      socket.resume();
      await closed;
      assert.deepEqual(statusesIn(heard()), [status], begin.slice(0, 20));
      if (begin.includes('/enrichments')) assertProblem(heard());
    }
  });

  it('answers a caller that closes its side after the request, or amid it', async () => {
    for (const [sent, ...statuses] of [
      [get('/clients'), 200],
      [get('/updates?client_token=NOBODY&wait=20'), 404],
      [post(event('')), 404],
      [post(event('')).subarray(0, -1), 400],
      ['GET /healthz HTTP/1.1\r\nho', 400],
    ] as const) {
      const { socket, closed } = callRaw(service.url, sent);
      socket.end();
      assert.deepEqual(statusesIn(await closed), statuses, sent.toString());
    }
    const { socket, closed } = callRaw(service.url, bare('GET /healthz', 'host: x').repeat(3));
    socket.end();
    assert.equal((await closed).split('HTTP/1.1 200 OK\r\n').length - 1, 3, 'requests at once');
  });

  it('answers each whole request, as it was carried out, before it refuses the bytes behind it', async () => {
    const listed = bare('GET /clients', 'host: x', bearer);
    for (const [sent, ...statuses] of [
      [listed.repeat(3), '200', '200', '200', '400'],
      [get('/clients'), '200'],
    ]) {
      const heard = await callRaw(service.url, `${sent}{"a":1}`).closed;
      assert.deepEqual(heard.match(/(?<=HTTP\/1\.1 )\d{3}/g), statuses);
    }
  });

  it('answers the requests of a connection one after another, and a packet of thousands with a refusal', async () => {
    const answersIn = (text: string) => text.split(/HTTP\/1\.1 (?=\d{3} )/).slice(1);
    const [slow, quick] = [bare('GET /clients', 'host: x', bearer), bare('GET /healthz', 'host: x')];
    const few = callRaw(service.url, slow + quick.repeat(15) + head('GET /nowhere'));
    const paths = answersIn(await few.closed).map((text) => /"clients"|"ok"|not_found/.exec(text)?.[0]);
    assert.deepEqual(paths, ['"clients"', ...Array(15).fill('"ok"'), 'not_found']);

    const floods = Array.from({ length: 20 }, () =>
      callRaw(service.url, bare('GET /', 'host: x').repeat(2000)),
    );
    for (const { closed } of floods) {
      const answers = answersIn(await closed);
      assert.equal(answers.length, 18);
      assert.match(answers.at(-1) ?? '', /^400 .*Too many requests came before the answer to an earlier/s);
    }
  });

  it('outlives callers that reset their connection after the request', async () => {
    for (let i = 0; i < 200; i++) {
      const { socket, closed } = callRaw(service.url, head(i % 2 ? 'GET /healthz' : 'CONNECT x.example:443'));
      await new Promise((resolve) => socket.once('connect', resolve));
      setTimeout(() => socket.resetAndDestroy(), i % 5);
      if (i % 5 === 4) await closed;
    }
  });

  it('says where a request is no HTTP', async () => {
    const broken: [sent: string | Buffer, says: RegExp][] = [
      [get('/assets/caf\u00e9?client_token=x'), /must be percent-encoded/],
      [get('/register_push_notifications?url=https://a.example/a b'), /a blank as %20/],
      [get('/clients\tx'), /must be percent-encoded/],
      ...['/clients#', '/register_push_notifications?url=https://a.example/#x', '/oauth/revoke?#'].map(
        (target): [string, RegExp] => [head(`POST ${target}`), /must be percent-encoded: a # as %23/],
      ),
      [postHead('content-length: 2, 2'), /see the headers Content-Length/],
      [postHead('content-length: 2', 'transfer-encoding: chunked'), /see the headers Content-Length/],
      [postHead('transfer-encoding: identity'), /and Transfer-Encoding/],
      ...['zz\r\n', '{"a":1}', '2\r\n{}}\r\n', '3\r\n{}\r\n0\r\n\r\n', '2\n{}\r\n', '2;\0\r\n{}\r\n'].map(
        (body): [string, RegExp] => [chunked(body), /sizes of the chunks/],
      ),
      ['PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', /it is HTTP\/2/],
      [head('GET /clients').replace('\r\n', '\r\n '), /see the first line/],
      [Buffer.from('160301020001', 'hex'), /does not begin with a method \(is it https/],
    ];
    for (const [sent, says] of broken) {
      assert.match(await callRaw(service.url, sent).closed, says, String(sent));
    }
  });

  it('names the header that is broken, in its name or into lines as base64 does', async () => {
    const headers = ['host: x', 'accept: */*', bearer, 'x-last: a'];
    const breaks: ((header: string) => string)[] = [
      ...['\n', '\r\n', '\r\n ', '\r\n a:', '\r', '\0', '\x01'].map(
        (end) => (text: string) => `${text}${end}def`,
      ),
      ...[' :', ' a:', '\t:', '":'].map((colon) => (text: string) => text.replace(':', colon)),
      (text) => `"${text}`,
    ];
    for (const [at, header] of headers.entries())
      for (const broken of breaks.map((how) => how(header))) {
        const heard = await callRaw(service.url, bare('GET /clients?a=b:c', ...headers.with(at, broken)))
          .closed;
        const named = `see the header ${header.split(':')[0]}, which must be one line`;
        assert.ok(heard.includes(named), JSON.stringify([broken, heard]));
        assert.ok(!heard.includes(publisher.token));
      }
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
    await publisher.call('GET', 'clients');
    for (const { socket } of callers) socket.destroy();
  });

  it('is alive after all of it, with nothing unexpected in the log and no growth of memory', async () => {
    assert.equal((await fetch(`${service.url}/readyz`)).status, 200);
    assert.doesNotMatch(service.said(), /unexpected error|"level":(50|60)/);
    assert.ok(!service.said().includes(publisher.token));
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
    silenceMs: 2_000,
    sendMs: 500,
    connections: 3,
  };
  let server: ListeningServer;
  let url: string;
  let cut = false;
  let timesFull = 0;

  before(async () => {
    const { apiDeps } = await sharedHarness();
    const app = new Koa();
    app.silent = true;
    app.use(async (ctx, next) => {
      if (ctx.path !== '/long') return await next();
      ctx.res.once('close', () => {
        cut = true;
      });
      ctx.body = Buffer.alloc(64 * mib);
    });
    for (const step of createApi(apiDeps).middleware) app.use(step);
    server = await listen({ HOST: '127.0.0.1', PORT: 0 }, app, short, () => timesFull++);
    url = `http://127.0.0.1:${server.port}`;
  });
  after(() => server.close());

  it('gets 408 with how much came when it sends half a head, half a body, or one byte at a time; nothing when it sends nothing', async () => {
    const half = bare('POST /oauth/access_token', 'host: x', 'content-length: 99', formType);
    const chunked = bare('POST /oauth/access_token', 'host: x', 'transfer-encoding: chunked', formType);
    for (const [bytes, more, says] of [
      ['GET / HTTP/1.1\r\nho', '', /took too long"/],
      [half, '', /: 0 of 99 bytes of the body came, the last long ago: is the Content-Length too high/],
      [`${half}abc`, '', /: 3 of 99 bytes/],
      [`${chunked}3\r\nabc\r\n`, '', /: 3 bytes of the body came, without its end, the last long ago/],
      ['GET / HTTP/1.1\r\nx: ', 'a', /took too long"/],
      [half, 'a', /: \d+ of 99 bytes of the body came, slowly: send smaller batches, or gzip/],
      [chunked, '1\r\na\r\n', /: \d+ bytes of the body came, without its end, slowly/],
    ] as const) {
      const caller = callRaw(url, bytes);
      let reset: unknown;
      caller.socket.once('error', (err) => {
        reset = err;
      });
      // It sends on for a while although the answer is there.
      let [sent, after] = [0, 0];
      const timer = setInterval(
        () => sent++ < 99 && (caller.heard() === '' || after++ < 9) && caller.socket.write(more),
        10,
      );
      const heard = await caller.closed;
      clearInterval(timer);
      assert.deepEqual([statusesIn(heard), reset], [[408], undefined], bytes);
      assertProblem(heard);
      assert.match(heard, says);
    }
    assert.equal(await callRaw(url).closed, '');
  });

  it('loses its connection when it does not read its answer, or reads it too slowly', async () => {
    for (const isSlow of [false, true]) {
      cut = false;
      const caller = callRaw(url, 'GET /long HTTP/1.1\r\nhost: x\r\n\r\n');
      // A little now and then, so that the connection is never silent.
      caller.socket.on('data', () => {
        if (cut) return;
        caller.socket.pause();
        if (isSlow) setTimeout(() => caller.socket.resume(), 20);
      });
      await until('it was cut', () => cut);
      caller.socket.resume();
      const { length } = await caller.closed;
      assert.ok(length > 0 && length < 64 * mib, `${length} bytes`);
    }
  });

  it('is closed without an answer beyond the limit of connections, and accepted again when others have gone', async () => {
    const callers = Array.from({ length: short.connections }, () => callRaw(url));
    await Promise.all(callers.map(({ socket }) => new Promise((resolve) => socket.once('connect', resolve))));
    const ask = () => callRaw(url, head('GET /healthz')).closed;
    await until('it is too many', async () => (await ask()) === '');
    assert.deepEqual([await ask(), timesFull], ['', 1], 'told once in a minute');
    for (const { socket } of callers) socket.destroy();
    await until('it is taken', async () => statusesIn(await ask())[0] === 200);
  });
});
