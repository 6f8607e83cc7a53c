import assert from 'node:assert/strict';
import type { Socket } from 'node:net';
import { createSender, type PostResult, type Sender } from '../../src/outgoing/post.js';
import { loopbackNames, namesBy } from './dnsServer.js';
import { certificate, loopbackPolicy, type RawReceiver, startRawReceiver, until } from './rawReceiver.js';

const timeoutMs = 300;
/** For attempts that end otherwise than by their timeout, however busy the machine is. */
const longTimeoutMs = 20_000;
const kib = 1_024;

/** Writes `bytes` again and again, as fast as they are taken or every `everyMs`. */
function keepWriting(socket: Socket, bytes: string, everyMs?: number): void {
  if (socket.destroyed) return;
  if (everyMs !== undefined) {
    socket.write(bytes);
    setTimeout(() => keepWriting(socket, bytes, everyMs), everyMs).unref();
  } else if (socket.write(bytes)) setImmediate(() => keepWriting(socket, bytes));
  else socket.once('drain', () => keepWriting(socket, bytes));
}

type Expected = Partial<PostResult> & { ok: boolean };

const cases: { receiver: string; answer: (socket: Socket) => unknown; ends: Expected }[] = [
  {
    receiver: 'answers 200 without a body',
    answer: (s) => s.write('HTTP/1.1 204 No Content\r\n\r\n'),
    ends: { ok: true, status: 204 },
  },
  {
    receiver: 'answers 200 with an endless body',
    answer: (s) => {
      s.write('HTTP/1.1 200 OK\r\n\r\n');
      keepWriting(s, 'x'.repeat(kib));
    },
    ends: { ok: true, status: 200 },
  },
  {
    receiver: 'answers 200 with endless chunks',
    answer: (s) => {
      s.write('HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n');
      keepWriting(s, `400\r\n${'x'.repeat(kib)}\r\n`);
    },
    ends: { ok: true, status: 200 },
  },
  {
    receiver: 'answers 200 with a body of one byte at a time',
    answer: (s) => {
      s.write('HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n');
      keepWriting(s, 'x', 20);
    },
    ends: { ok: true, status: 200 },
  },
  {
    receiver: 'answers 500 with an endless body',
    answer: (s) => {
      s.write('HTTP/1.1 500 No\r\n\r\n');
      keepWriting(s, 'x'.repeat(kib));
    },
    ends: { ok: false, status: 500, error: 'http_status', responseExcerpt: 'x'.repeat(kib) },
  },
  {
    receiver: 'answers 500 with a body of one byte at a time',
    answer: (s) => {
      s.write('HTTP/1.1 500 No\r\ncontent-length: 1000\r\n\r\nwhy');
      keepWriting(s, 'y', 60_000);
    },
    ends: { ok: false, status: 500, error: 'http_status', responseExcerpt: 'whyy' },
  },
  {
    receiver: 'answers 500 and closes in the middle of its body',
    answer: (s) => s.end('HTTP/1.1 500 No\r\ncontent-length: 1000\r\n\r\nwhy'),
    ends: { ok: false, status: 500, error: 'http_status', responseExcerpt: 'why' },
  },
  {
    receiver: 'answers 404 with control characters and half a character',
    answer: (s) =>
      s.end(
        Buffer.concat([
          Buffer.from('HTTP/1.0 404 No\r\n\r\na\u0000b\u001b[31m\r\nc\u202ed é'),
          Buffer.from([0xc3]),
        ]),
      ),
    ends: { ok: false, status: 404, error: 'http_status', responseExcerpt: 'a\ufffdb\ufffd[31m c\ufffdd é' },
  },
  {
    receiver: 'answers 410',
    answer: (s) => s.write('HTTP/1.1 410 Gone\r\ncontent-length: 0\r\n\r\n'),
    ends: { ok: false, status: 410, error: 'http_status' },
  },
  ...[300, 301, 302, 303, 304, 307, 308].map((status) => ({
    receiver: `redirects to itself with ${status}`,
    answer: (s: Socket) =>
      s.write(`HTTP/1.1 ${status} There\r\nlocation: /hook\r\ncontent-length: 0\r\n\r\n`),
    ends: { ok: false, status, error: 'redirect' as const },
  })),
  {
    receiver: 'asks for a huge Retry-After',
    answer: (s) =>
      s.write('HTTP/1.1 429 Slow\r\nretry-after: 99999999999999999999\r\ncontent-length: 0\r\n\r\n'),
    ends: { ok: false, status: 429, error: 'http_status', retryAfterMs: 86_400_000 },
  },
  {
    receiver: 'asks for a Retry-After of seconds',
    answer: (s) => s.write('HTTP/1.1 503 Later\r\nRetry-After: 120\r\ncontent-length: 0\r\n\r\n'),
    ends: { ok: false, status: 503, error: 'http_status', retryAfterMs: 120_000 },
  },
  {
    receiver: 'asks for a Retry-After on 500, where it has no meaning',
    answer: (s) => s.write('HTTP/1.1 500 No\r\nretry-after: 120\r\ncontent-length: 0\r\n\r\n'),
    ends: { ok: false, status: 500, error: 'http_status', retryAfterMs: undefined },
  },
  {
    receiver: 'sends endless headers',
    answer: (s) => {
      s.write('HTTP/1.1 200 OK\r\n');
      keepWriting(s, `x-more: ${'x'.repeat(kib)}\r\n`);
    },
    ends: { ok: false, error: 'protocol' },
  },
  {
    receiver: 'sends one endless header',
    answer: (s) => {
      s.write('HTTP/1.1 200 OK\r\nx-more: ');
      keepWriting(s, 'x'.repeat(kib));
    },
    ends: { ok: false, error: 'protocol' },
  },
  {
    receiver: 'sends one byte of a header at a time',
    answer: (s) => {
      s.write('HTTP/1.1 200 OK\r\nx-more: ');
      keepWriting(s, 'x', 20);
    },
    ends: { ok: false, error: 'timeout' },
  },
  {
    receiver: 'sends 103 for ever',
    answer: (s) => keepWriting(s, 'HTTP/1.1 103 Early Hints\r\n\r\n', 10),
    ends: { ok: false, error: 'timeout' },
  },
  { receiver: 'keeps silent', answer: () => undefined, ends: { ok: false, error: 'timeout' } },
  {
    receiver: 'does not speak HTTP',
    answer: (s) => s.write('220 mail.example ESMTP\r\n'),
    ends: { ok: false, error: 'protocol' },
  },
  { receiver: 'closes without an answer', answer: (s) => s.end(), ends: { ok: false, error: 'protocol' } },
  {
    receiver: 'closes in the middle of its headers',
    answer: (s) => s.end('HTTP/1.1 200 OK\r\nx-mo'),
    ends: { ok: false, error: 'protocol' },
  },
];

describe('an attempt whose receiver', () => {
  let receiver: RawReceiver | undefined;
  let sender: Sender | undefined;

  afterEach(async () => {
    await sender?.close();
    await receiver?.close();
  });

  const post = async (at: RawReceiver, withinMs: number): Promise<PostResult> => {
    sender = createSender({ policy: loopbackPolicy, timeoutMs: withinMs, ca: certificate });
    const result = await sender.post({
      url: at.url,
      client: 'SITE0042',
      headers: { 'webhook-id': 'n-1' },
      body: '{"a":1}',
    });
    assert.equal(sender.inFlight(), 0);
    assert.ok(!JSON.stringify(result).includes('hidden-in-query'));
    return result;
  };

  const assertEnds = (result: PostResult, ends: Expected): void => {
    const wanted = Object.keys(ends) as (keyof PostResult)[];
    assert.deepEqual(Object.fromEntries(wanted.map((k) => [k, result[k]])), ends);
    assert.equal(result.ok ? undefined : typeof result.detail, result.ok ? undefined : 'string');
  };

  for (const tls of [false, true]) {
    for (const { receiver: does, answer, ends } of cases) {
      it(`${does}${tls ? ', over TLS,' : ''} ends as ${ends.ok ? 'ok' : ends.error}`, async () => {
        receiver = await startRawReceiver({ tls, answer });
        const result = await post(receiver, ends.error === 'timeout' ? timeoutMs : longTimeoutMs);
        assertEnds(result, ends);
        assert.equal(receiver.received().split('POST ').length - 1, 1, 'exactly one request');
        assert.equal(result.remoteAddress, '127.0.0.1');
      });
    }
  }

  it('never ends its body has its connection cut when the time of the attempt is over', async () => {
    receiver = await startRawReceiver({
      answer: (s) => s.write('HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n'),
    });
    assert.equal((await post(receiver, 2_000)).ok, true);
    await until(() => receiver?.open() === 0);
  });

  it('asks for a Retry-After until a date ends with the time until then', async () => {
    const dates: [string, number, number][] = [
      [new Date(Date.now() + 3_600_000).toUTCString(), 3_590_000, 3_600_000],
      [new Date(Date.now() + 99 * 86_400_000).toUTCString(), 86_400_000, 86_400_000],
      ['Sun, 06 Nov 1994 08:49:37 GMT', 0, 0],
      ['Sunday, 06-Nov-94 08:49:37 GMT', 0, 0],
      ['Sun Nov  6 08:49:37 1994', 0, 0],
    ];
    let asked = 0;
    receiver = await startRawReceiver({
      answer: (s) =>
        s.write(`HTTP/1.1 503 Later\r\nretry-after: ${dates[asked++]?.[0]}\r\ncontent-length: 0\r\n\r\n`),
    });
    sender = createSender({ policy: loopbackPolicy, timeoutMs: longTimeoutMs });
    for (const [date, least, most] of dates) {
      const { retryAfterMs } = await sender.post({
        url: receiver.url,
        client: 'SITE0042',
        headers: {},
        body: '{}',
      });
      assert.ok(retryAfterMs !== undefined && retryAfterMs >= least && retryAfterMs <= most, date);
    }
  });

  it('asks for a Retry-After that cannot be read ends without one', async () => {
    const values = ['soon', '-1', '1.5', '', 'Sun, 99 Nov 2026'];
    let asked = 0;
    receiver = await startRawReceiver({
      answer: (s) =>
        s.write(`HTTP/1.1 503 Later\r\nretry-after: ${values[asked++]}\r\ncontent-length: 0\r\n\r\n`),
    });
    sender = createSender({ policy: loopbackPolicy, timeoutMs: longTimeoutMs });
    for (const value of values) {
      const result = await sender.post({ url: receiver.url, client: 'SITE0042', headers: {}, body: '{}' });
      assert.equal(result.status, 503);
      assert.ok(!('retryAfterMs' in result), value);
    }
  });

  it('shows a certificate for another name ends as tls', async () => {
    receiver = await startRawReceiver({ tls: true, answer: (s) => s.write('HTTP/1.1 204 OK\r\n\r\n') });
    sender = createSender({
      policy: loopbackPolicy,
      timeoutMs: longTimeoutMs,
      ca: certificate,
      names: loopbackNames,
    });
    const at = (host: string) => ({
      url: `https://${host}:${receiver?.port}/`,
      client: 'SITE0042',
      headers: {},
      body: '{}',
    });
    assertEnds(await sender.post(at('other.example')), {
      ok: false,
      error: 'tls',
      detail: 'ERR_TLS_CERT_ALTNAME_INVALID',
    });
    assert.equal(receiver.received(), '');
    assertEnds(await sender.post(at('receiver.example')), { ok: true, status: 204 });
    assertEnds(await sender.post(at('receiver.example.')), { ok: true, status: 204 });
  });

  it('sends its TLS handshake one byte at a time ends as timeout, and its connection is cut', async () => {
    // The head of a handshake record, then its bytes one by one, so that a timeout between bytes would never fire.
    receiver = await startRawReceiver({
      onConnection: (s) =>
        s.once('data', () => {
          s.write(Buffer.from('160303ffff', 'hex'));
          keepWriting(s, 'x', 20);
        }),
    });
    sender = createSender({ policy: loopbackPolicy, timeoutMs });
    const url = receiver.url.replace('http:', 'https:');
    const result = await sender.post({ url, client: 'SITE0042', headers: {}, body: '{}' });
    assert.ok(result.error === 'timeout' || result.error === 'tls', result.error);
    assert.equal(sender.inFlight(), 0);
    await until(() => receiver?.open() === 0);
  });

  it('stalls in the TLS handshake ends as timeout, and its connection is cut', async () => {
    receiver = await startRawReceiver({});
    sender = createSender({ policy: loopbackPolicy, timeoutMs });
    const url = receiver.url.replace('http:', 'https:');
    assertEnds(await sender.post({ url, client: 'SITE0042', headers: {}, body: '{}' }), {
      ok: false,
      error: 'timeout',
    });
    await until(() => receiver?.open() === 0);
  });

  it('has a silent name server ends as timeout', async () => {
    sender = createSender({
      policy: loopbackPolicy,
      timeoutMs,
      names: namesBy(() => new Promise(() => undefined)),
    });
    const result = await sender.post({
      url: 'https://hooks.example/',
      client: 'SITE0042',
      headers: {},
      body: '{}',
    });
    assertEnds(result, { ok: false, error: 'timeout' });
  });
});
