import assert from 'node:assert/strict';
import type { Socket } from 'node:net';
import { explainFailure, explainRemarks } from '../../src/outgoing/details.js';
import type { PostResult } from '../../src/outgoing/post.js';
import { useTogether } from '../together.js';
import { answering, namesBy } from './dnsServer.js';
import { noContent, ownKey, pass, requestTo, useNetwork } from './rawReceiver.js';

const closing = 'HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n';
/** Since OpenSSL 3.5 it is of more than a packet. */
const isHelloLong = !/^3\.[0-4]\./.test(process.versions.openssl);
const versions = ['TLSv1.2', 'TLSv1.3'] as const;
const endOf = ({ ok, error, detail, status }: PostResult) => (ok ? 'ok' : (detail ?? status ?? error));
const ended = (result: PostResult) => [endOf(result), ...(result.remarks ?? [])];
type Does = (socket: Socket) => unknown;

describe('a receiver behind a box that reads one packet of TLS', () => {
  const { start, sending } = useNetwork();
  const refusals: [what: string, does: Does, isSilent?: boolean][] = [
    ['is silent', () => undefined, true],
    ['resets', (s) => s.resetAndDestroy()],
    ['closes', (s) => s.end()],
    ...[10, 47, 50, 51, 80].map((number): (typeof refusals)[0] => [
      `sends alert ${number}`,
      (s) => s.end(Buffer.from([21, 3, 3, 0, 2, 2, number])),
    ]),
  ];

  /** @param does what the box does to a message of more than a packet */
  async function startBox(version: (typeof versions)[number], does: Does) {
    const tls = { ...ownKey, minVersion: version, maxVersion: version };
    const behind = await start({ tls, answer: (s) => s.end(closing) });
    const box = { url: '', accepted: 0, dropped: 0 };
    const onConnection: Does = (socket) => {
      box.accepted++;
      socket.once('data', (hello) => {
        if (hello.length <= 1_460) return pass(socket, behind.port, hello);
        box.dropped++;
        return does(socket);
      });
    };
    const { port } = await start({ onConnection });
    box.url = `https://127.0.0.1:${port}/`;
    return box;
  }

  for (const version of versions)
    for (const [what, does, isSilent = false] of refusals)
      it(`and ${what} (${version}) gets every notification, ${isSilent ? 'after the first attempt' : 'from the first attempt on'}`, async function () {
        if (!isHelloLong) this.skip();
        const box = await startBox(version, does);
        const sender = sending({ timeoutMs: isSilent ? 3_000 : 20_000 });
        const ends = [];
        for (let i = 0; i < 4; i++) ends.push(ended(await sender.post(requestTo(box.url))));
        const first = isSilent ? ['during_handshake'] : ['ok', 'short_hello'];
        assert.deepEqual(ends, [first, ...Array(3).fill(['ok', 'short_hello'])]);
        assert.deepEqual([box.dropped, box.accepted], [1, isSilent ? 4 : 5]);
        assert.match(explainRemarks(['short_hello']).join(), /firewall.*ClientHello in several packets/);
      });

  it('is not a server that breaks every handshake: nothing is learnt of it', async () => {
    const sizes: number[] = [];
    const onConnection: Does = (s) =>
      s.once('data', (hello) => {
        sizes.push(hello.length);
        s.destroy();
      });
    const { port } = await start({ onConnection });
    const sender = sending();
    for (let i = 0; i < 2; i++)
      assert.deepEqual(ended(await sender.post(requestTo(`https://127.0.0.1:${port}/`))), [
        'handshake_broken',
      ]);
    const long = sizes.filter((size) => size > 1_460).length;
    assert.deepEqual([long, sizes.length], isHelloLong ? [2, 4] : [0, 2]);
  });
});

describe('a receiver with a connection for each worker', () => {
  const { start, sending } = useNetwork(after);
  const itWaits = useTogether(4);

  /** @param afterMs each answer, of which each worker gives one at a time */
  async function startWorkers(count: number, isTls: boolean, head: string, afterMs = 0) {
    const answer: Does = (s) => setTimeout(() => s.write(head), afterMs);
    const behind = await start({ tls: isTls, answer });
    const waiting: Socket[] = [];
    let busy = 0;
    const serve = (): void => {
      const socket = busy < count ? waiting.shift() : undefined;
      if (socket === undefined) return;
      busy++;
      socket.on('close', () => {
        busy--;
        serve();
      });
      pass(socket, behind.port);
    };
    const onConnection: Does = (socket) => {
      waiting.push(socket);
      serve();
    };
    const { port } = await start({ onConnection });
    return { url: `${isTls ? 'https' : 'http'}://127.0.0.1:${port}/`, accepted: behind.accepted };
  }

  const postAll = (sender: ReturnType<typeof sending>, url: string, count: number) =>
    Promise.all(Array.from({ length: count }, () => sender.post(requestTo(url))));

  for (const isTls of [false, true])
    for (const head of [noContent, noContent.replace('\r\n\r\n', '\r\nKeep-Alive: timeout=5\r\n\r\n')])
      for (const workers of [1, 2, 4])
        itWaits(
          `, ${workers}, gets each notification by its first attempt, ${isTls ? 'TLS' : 'plain'}, ${head.length} bytes`,
          async () => {
            const burst = async (events: number) => {
              const { url } = await startWorkers(workers, isTls, head);
              // Less than a connection rests.
              const sender = sending({ timeoutMs: 5_500, connectionsPerOrigin: 16 });
              return await postAll(sender, url, events);
            };
            const results = (await Promise.all([16, 40].map(burst))).flat();
            assert.deepEqual([...new Set(results.map(endOf))], ['ok']);
            assert.deepEqual(
              [...new Set(results.flatMap(({ remarks = [] }) => remarks))],
              ['one_connection'],
            );
            const told = explainRemarks(['one_connection']).join();
            assert.match(told, /16 connections at once.*close each after its answer/);
          },
        );

  itWaits('serves another process before the time of an attempt is over', async () => {
    const { url } = await startWorkers(1, true, noContent);
    assert.equal((await sending().post(requestTo(url))).ok, true);
    assert.equal((await sending({ timeoutMs: 10_000 }).post(requestTo(url))).ok, true);
  });

  for (const isTls of [false, true])
    itWaits(`that is too slow for all that wait is told so, ${isTls ? 'TLS' : 'plain'}`, async () => {
      const { url } = await startWorkers(1, isTls, closing, 700);
      const results = await postAll(sending({ timeoutMs: 2_500 }), url, 8);
      // One of them may be served when its time ends.
      const ends = new Set(results.map(endOf).filter((end) => end !== 'during_answer'));
      assert.deepEqual(ends, new Set(['ok', 'connection_unserved']));
      const { advice } = explainFailure({ error: 'timeout', detail: 'connection_unserved' });
      assert.match(advice, /16 connections at once.*workers is stuck/);
    });

  itWaits('is not one that is slow: its connections are used again', async () => {
    const receiver = await start({ answer: (s) => setTimeout(() => s.write(noContent), 1_200) });
    const sender = sending();
    for (let round = 0; round < 3; round++)
      for (const result of await postAll(sender, receiver.url, 4)) assert.deepEqual(ended(result), ['ok']);
    assert.equal(receiver.accepted(), 4);
  });
});

describe('a Retry-After', () => {
  const { start, sending } = useNetwork();
  const { TZ } = process.env;
  before(() => {
    process.env.TZ = 'Asia/Tokyo';
  });
  after(() => {
    if (TZ === undefined) delete process.env.TZ;
    else process.env.TZ = TZ;
  });
  const minute = 60_000;
  const hour = 60 * minute;
  const day = 24 * hour;
  const inGmt = (ms: number) => new Date(ms).toUTCString();
  const forms: [form: string, write: (ms: number) => string][] = [
    ['RFC 1123', inGmt],
    ['RFC 850', (ms) => inGmt(ms).replace(/^(...), (..) (...) ..(..)/, '$1day, $2-$3-$4')],
    ['asctime', (ms) => inGmt(ms).replace(/, (\d+) (\w+) (\d+) (\S+) .*/, ' $2 $1 $4 $3')],
  ];

  /** Without a time it cannot be read. */
  type Row = [
    what: string,
    value: (now: number) => string,
    waitsMs?: number,
    isOff?: boolean,
    head?: (now: number) => string,
  ];
  const rows: Row[] = [
    ['seconds', () => '120', 2 * minute],
    ['seconds in a folded line', () => '\r\n 120', 2 * minute],
    ['seconds of a wrong clock', () => '60', minute, true, (now) => `Date: ${inGmt(now + hour)}`],
    ['seconds from a cache', () => '60', minute, false, (now) => `Date: ${inGmt(now - hour)}\r\nAge: 3600`],
    ['too many seconds', () => '99999999999999999999', day],
    ['a date that is too late', () => 'Tue, 01 Jan 2199 00:00:00 GMT', day],
    ['a date without a zone', (now) => inGmt(now + hour).replace(' GMT', ''), hour],
    ['a date with an offset', (now) => inGmt(now + hour).replace('GMT', '+0000'), hour],
    ['a date beside a Date that is none', (now) => inGmt(now + minute), minute, false, () => 'Date: soon'],
    [
      'a date of local time beside a right Date',
      (now) => inGmt(now - 299 * minute),
      0,
      true,
      (now) => `Date: ${inGmt(now)}`,
    ],
    ...['soon', '-1', '1.5', '"5"', '', '2026-11-08T00:00:00Z', 'Sun, 99 Nov 2026'].map(
      (wrong): Row => [`"${wrong}"`, () => wrong],
    ),
    ...forms.flatMap(([form, write]): Row[] => [
      [`a date (${form})`, (now) => write(now + hour), hour],
      [`a past date (${form})`, (now) => write(now - hour), 0, true],
      ...[-600, -60, -30, -6, -4, 0, 4, 6, 60, 540].map(
        (off): Row => [
          `a date (${form}) of a clock that is ${off} minutes off`,
          (now) => write(now + (off + 1) * minute),
          minute,
          Math.abs(off) > 5,
          (now) => `Date: ${inGmt(now + off * minute)}`,
        ],
      ),
    ]),
  ];
  for (const [i, [what, value, waitsMs, isOff = false, head = () => 'A: b']] of rows.entries())
    it(`of ${what} ${waitsMs === undefined ? 'is said to be unreadable' : `waits ${waitsMs} ms`}${isOff ? ', and the clock is shown' : ''}`, async () => {
      // A proxy may join two of them.
      for (const join of [(one: string) => one, (one: string) => `${one}, ${one}`]) {
        const answer: Does = (s) => {
          const now = Date.now();
          const status = i % 2 === 0 ? 429 : 503;
          s.end(
            `HTTP/1.1 ${status} X\r\n${head(now)}\r\nRetry-After: ${join(value(now))}\r\nContent-Length: 0\r\n\r\n`,
          );
        };
        const {
          retryAfterMs,
          remarks = [],
          detail,
        } = await sending().post(requestTo((await start({ answer })).url));
        assert.deepEqual(
          [detail, remarks],
          [waitsMs === undefined ? 'retry_after_unreadable' : undefined, isOff ? ['clock_off'] : []],
        );
        if (waitsMs === undefined) assert.equal(retryAfterMs, undefined);
        else assert.ok(Math.abs((retryAfterMs ?? -1) - waitsMs) <= 2_000, `${retryAfterMs} for ${waitsMs}`);
      }
      assert.match(explainRemarks(['clock_off']).join(), /NTP.*GMT.*in seconds/);
    });
});

describe('a request over a connection that had one before', () => {
  const { start, sending } = useNetwork();
  for (const status of [400, 405, 501, 404, 500])
    for (const first of [204, status])
      it(`answered ${status} after ${first} says so if an unread body may be the cause`, async () => {
        const answer = (s: Socket, count: number) =>
          s.write(`HTTP/1.1 ${count === 1 ? first : status} X\r\nContent-Length: 0\r\n\r\n`);
        const receiver = await start({ answer });
        const sender = sending();
        const post = async () => (await sender.post(requestTo(receiver.url))).remarks ?? [];
        const remarks = [await post(), await post()];
        const isLikely = [400, 405, 501].includes(status);
        assert.deepEqual(remarks, [[], isLikely ? ['used_connection'] : []]);
        assert.match(explainRemarks(['used_connection']).join(), /read each body to its end/);
      });
});

describe('a name with two addresses, of which the first', () => {
  const { start, sending } = useNetwork();
  const host = 'receiver.example';
  const says = (status: number, more = ''): Does => {
    return (s) => s.write(`HTTP/1.1 ${status} X\r\n${more}Content-Length: 0\r\n\r\n`);
  };
  const ways: [what: string, isTls: boolean, does: Does, end: string | number, isLeft?: boolean][] = [
    ...[true, false].flatMap((isTls): typeof ways => [
      ['closes', isTls, (s) => s.end(), isTls ? 'handshake_broken' : 'closed_without_answer'],
      ['resets', isTls, (s) => s.resetAndDestroy(), isTls ? 'handshake_broken' : 'reset_without_answer'],
      ['is silent', isTls, () => undefined, isTls ? 'during_handshake' : 'during_answer'],
      ['speaks SMTP', isTls, (s) => s.end('220 mail.example\r\n'), isTls ? 'not_tls' : 'not_http'],
    ]),
    ['answers 502', false, says(502), 502],
    ['answers 503', false, says(503), 503],
    ['answers 504', false, says(504), 504],
    ['answers 503 with a time', false, says(503, 'Retry-After: 1\r\n'), 503, false],
    ['answers 500', false, says(500), 500, false],
  ];
  for (const [what, isTls, does, end, isLeft = true] of ways)
    it(`${isTls ? 'in TLS ' : ''}${what} is ${isLeft ? 'left by the next attempt' : 'kept'}`, async () => {
      const { port } = await start({ onConnection: (s) => s.on('data', () => does(s)) });
      await start({ tls: isTls, host: '127.0.0.2', port, answer: (s) => s.end(closing) });
      const sender = sending({ timeoutMs: 1_000, names: namesBy(answering(['127.0.0.1', '127.0.0.2'])) });
      const post = async () => {
        const result = await sender.post(requestTo(`http${isTls ? 's' : ''}://${host}:${port}/`));
        return [endOf(result), result.remoteAddress];
      };
      const failed = [end, '127.0.0.1'];
      const after = isLeft ? ['ok', '127.0.0.2'] : failed;
      assert.deepEqual([await post(), await post(), await post()], [failed, after, after]);
    });

  it('fails as the second does is begun with again', async () => {
    const { port } = await start({ onConnection: (s) => s.on('data', () => s.end()) });
    await start({ host: '127.0.0.2', port, answer: (s) => s.end() });
    const sender = sending({ names: namesBy(answering(['127.0.0.1', '127.0.0.2'])) });
    const addresses = [];
    for (let i = 0; i < 4; i++)
      addresses.push((await sender.post(requestTo(`http://${host}:${port}/`))).remoteAddress);
    assert.deepEqual(addresses, ['127.0.0.1', '127.0.0.2', '127.0.0.1', '127.0.0.2']);
  });
});
