import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { Socket } from 'node:net';
import { Worker } from 'node:worker_threads';
import type { PostResult } from '../../src/outgoing/post.js';
import { noContent, requestTo, until, useNetwork } from './rawReceiver.js';

const timeoutMs = 1_000;
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

type Does = (socket: Socket) => unknown;
const says = (text: string | Buffer): Does => {
  return (s) => s.write(text);
};
const ends = (text: string | Buffer): Does => {
  return (s) => s.end(text);
};
const saysOnAndOn = (head: string, bytes: string, everyMs?: number): Does => {
  return (s) => {
    s.write(head);
    keepWriting(s, bytes, everyMs);
  };
};
const kilobyte = 'x'.repeat(kib);
const [h200, h500] = ['HTTP/1.1 200 OK\r\n', 'HTTP/1.1 500 No\r\n'];
const body1000 = 'content-length: 1000\r\n\r\n';
const empty = 'content-length: 0\r\n\r\n';
const hint = 'HTTP/1.1 103 Early Hints\r\n\r\n';
const fine: Expected = { ok: true, status: 200 };
const failed = (status: number, responseExcerpt?: string): Expected => {
  return { ok: false, status, error: 'http_status', ...(responseExcerpt && { responseExcerpt }) };
};
const broken = (error: PostResult['error'], detail?: PostResult['detail']): Expected => {
  return { ok: false, error, detail };
};
const oddText = Buffer.from('HTTP/1.0 404 No\r\n\r\na\u0000b\u001b[31m\r\nc\u202ed é');
const halfACharacter = Buffer.concat([oddText, Buffer.from([0xc3])]);

const cases: [receiver: string, does: Does, result: Expected][] = [
  ['answers 204', says(noContent), { ok: true, status: 204 }],
  ['answers 200 with an endless body', saysOnAndOn(`${h200}\r\n`, kilobyte), fine],
  ['answers 200 with a body of one byte at a time', saysOnAndOn(h200 + body1000, 'x', 20), fine],
  ['answers 500 with an endless body', saysOnAndOn(`${h500}\r\n`, kilobyte), failed(500, kilobyte)],
  ['answers 500 and closes in the middle of its body', ends(`${h500}${body1000}why`), failed(500, 'why')],
  ['answers 404 with odd characters', ends(halfACharacter), failed(404, 'a\ufffdb\ufffd[31m c\ufffdd é')],
  ...['constructor', '__proto__', 'toString', 'gzip, '.repeat(10_000), 'br,'.repeat(20_000)].map(
    (coding): (typeof cases)[0] => [
      `answers 500 in ${coding.slice(0, 20)}`,
      ends(`${h500}content-encoding: ${coding}\r\n${body1000}${kilobyte}`),
      { ...failed(500), responseExcerpt: undefined, remarks: ['answer_unreadable'] },
    ],
  ),
  ['answers 410', says(`HTTP/1.1 410 Gone\r\n${empty}`), failed(410)],
  ...[300, 301, 302, 303, 304, 307, 308].map((status): (typeof cases)[0] => [
    `redirects to itself with ${status}`,
    says(`HTTP/1.1 ${status} There\r\nlocation: /hook\r\n${empty}`),
    { ok: false, status, error: 'redirect', responseExcerpt: 'Location: /hook' },
  ]),
  [
    'answers 304 and nothing else',
    says('HTTP/1.1 304 X\r\n\r\n'),
    { ok: false, status: 304, error: 'redirect', responseExcerpt: undefined },
  ],
  [
    'asks for a Retry-After on 500, where it has no meaning',
    says(`${h500}retry-after: 120\r\n${empty}`),
    { ...failed(500), retryAfterMs: undefined, detail: undefined },
  ],
  ...[200, 503].flatMap((status): typeof cases => {
    const result = status === 200 ? fine : failed(status);
    const head = `HTTP/1.1 ${status} X\r\n`;
    return [
      [`sends ${status} and endless headers`, saysOnAndOn(head, `x-more: ${kilobyte}\r\n`), result],
      [`sends ${status} and one endless header`, saysOnAndOn(`${head}x-more: `, kilobyte), result],
      [`closes in the middle of its headers after ${status}`, ends(`${head}x-mo`), result],
    ];
  }),
  ['sends one byte of a header at a time', saysOnAndOn(`${h200}x: `, 'x', 20), fine],
  ['sends 103 for ever, slowly', saysOnAndOn('', hint, 10), broken('timeout', 'during_answer')],
  ['sends 103 for ever, fast', saysOnAndOn('', hint), broken('protocol', 'endless_interim')],
  ['sends an endless status line', saysOnAndOn(h200.trim(), kilobyte), broken('protocol', 'not_http')],
  ['keeps silent', () => undefined, broken('timeout', 'during_answer')],
  ['speaks SMTP', says('220 mail.example ESMTP\r\n'), broken('protocol', 'not_http')],
  ['speaks SSH and waits', says('SSH'), broken('protocol', 'not_http')],
  ['speaks HTTP/2 only', says(Buffer.from('000012040000000000', 'hex')), broken('protocol', 'http2_only')],
  ['expects TLS', says(Buffer.from('15030100020228', 'hex')), broken('protocol', 'https_expected')],
  [
    'switches protocols unasked',
    says('HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\n\r\n'),
    broken('protocol', 'switching_protocols'),
  ],
  ['closes without an answer', ends(''), broken('protocol', 'closed_without_answer')],
  ['closes after a 100', ends('HTTP/1.1 100 Continue\r\n\r\n'), broken('protocol', 'closed_without_answer')],
  ['closes in its status line', ends('HTTP/1.1 2'), broken('protocol', 'closed_in_status_line')],
];

describe('an attempt whose receiver', () => {
  const { start, sending } = useNetwork();

  const assertEnds = (result: PostResult, expected: Expected): void => {
    const wanted = Object.keys(expected) as (keyof PostResult)[];
    assert.deepEqual(Object.fromEntries(wanted.map((name) => [name, result[name]])), expected);
    assert.ok(!JSON.stringify(result).includes('hidden-in-query'));
  };

  for (const tls of [false, true]) {
    for (const [receiver, does, expected] of cases) {
      it(`${receiver}${tls ? ', over TLS,' : ''} ends as ${expected.ok ? 'ok' : expected.error}`, async () => {
        const { url, received } = await start({ tls, answer: does });
        const sender = sending(expected.error === 'timeout' ? { timeoutMs } : {});
        const result = await sender.post(requestTo(url));
        assertEnds(result, expected);
        assert.equal(sender.inFlight(), 0);
        assert.equal(received().split('POST ').length - 1, 1, 'exactly one request');
        assert.equal(result.remoteAddress, '127.0.0.1');
      });
    }
  }

  it('never ends its body has its connection cut soon, long before the time of the attempt is over', async () => {
    for (const answer of [says(h200 + body1000), saysOnAndOn(h200 + body1000, 'x', 20)]) {
      const receiver = await start({ answer });
      assert.equal((await sending({ timeoutMs: 600_000 }).post(requestTo(receiver.url))).ok, true);
      await until(() => receiver.open() === 0);
    }
  });

  it('resets what it accepts is never said to have a forbidden address', async () => {
    // In a thread of its own, so that some resets come in the very moment of the connection.
    const thread = new Worker(
      `require('net').createServer((socket) => socket.resetAndDestroy()).listen(0, '127.0.0.1', function () {
        require('worker_threads').parentPort.postMessage(this.address().port);
      })`,
      { eval: true },
    );
    const [port] = await once(thread, 'message');
    const sender = sending();
    const errors = new Set<unknown>();
    const post = async () => errors.add((await sender.post(requestTo(`http://127.0.0.1:${port}/`))).error);
    for (let i = 0; i < 300; i++) await Promise.all(Array.from({ length: 8 }, post));
    await thread.terminate();
    // Which of them come in that moment is the scheduler's.
    for (const error of errors) assert.ok(error === 'connect' || error === 'protocol', String(error));
  });

  it('answers 500 with bytes that become longer has an excerpt of 1 KiB as stored', async () => {
    for (const byte of [0x00, 0x22, 0x5c, 0x80, 0xff, 0x41]) {
      const answer = ends(Buffer.concat([Buffer.from(`${h500}\r\n`), Buffer.alloc(4096, byte)]));
      const { url } = await start({ answer });
      const { responseExcerpt } = await sending().post(requestTo(url));
      const bytes = Buffer.byteLength(JSON.stringify(responseExcerpt)) - 2;
      assert.ok(bytes > kib - 6 && bytes <= kib, `${byte}: ${bytes}`);
    }
  });

  it('answers 500 with a page in a charset has its text as the excerpt, and no half of a character', async () => {
    const text = 'Zugriff verweigert: /hook?key=hidden ';
    const pages: [charset: string, page: Buffer, excerpt: string][] = [
      ['utf-16', Buffer.from(`\ufeff${text.repeat(20)}`, 'utf16le'), text.repeat(14).slice(0, 511)],
      ['UTF-16LE', Buffer.from(text, 'utf16le'), text],
      ['"utf-16be"', Buffer.from(text, 'utf16le').swap16(), text],
      ['Shift_JIS', Buffer.from('8347838981', 'hex'), 'エラ'],
      ['euc-kr', Buffer.from('bfc0b7f9', 'hex'), '오류'],
    ];
    for (const [charset, page, excerpt] of pages) {
      const head = `${h500}Content-Type: text/html; charset=${charset}\r\n\r\n`;
      const { url } = await start({ answer: ends(Buffer.concat([Buffer.from(head), page])) });
      assert.equal((await sending().post(requestTo(url))).responseExcerpt, excerpt, charset);
    }
  });

  for (const [does, onConnection] of [
    ['stalls in the TLS handshake', undefined],
    [
      // The head of a handshake record, then its bytes one by one, so that a timeout between bytes would never fire.
      'sends its TLS handshake one byte at a time',
      (s: Socket) => {
        s.once('data', () => {
          s.write(Buffer.from('160303ffff', 'hex'));
          keepWriting(s, 'x', 20);
        });
      },
    ],
  ] as const) {
    it(`${does} ends as timeout, and its connection is cut`, async () => {
      const receiver = await start({ onConnection });
      const sender = sending({ timeoutMs });
      const { error } = await sender.post(requestTo(receiver.url.replace('http:', 'https:')));
      assert.ok(error === 'timeout' || (onConnection && error === 'tls'), error);
      assert.equal(sender.inFlight(), 0);
      await until(() => receiver.open() === 0);
    });
  }
});
