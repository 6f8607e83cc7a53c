import assert from 'node:assert/strict';
import type { Socket } from 'node:net';
import { noContent, requestTo, useNetwork } from './rawReceiver.js';

const ok = 'HTTP/1.1 200 OK\r\n';
const body = 'content-length: 2\r\n\r\nok';
const twoKib = 'x'.repeat(2_048);
const times = (count: number) => Array.from({ length: count }, (_, i) => i);

const h = 'HTTP/1.1 ';
/**
 * Beginnings of an answer that servers have sent, or might, and the status that each counts as, 0 for none: what most of curl, Python
 * (http.client) and Go (net/http) took it for, and of `HTTP/2` curl alone.
 */
const beginnings: [what: string, answer: string, status: number][] = [
  ['201', `${h}201 Created\r\n${body}`, 201],
  ['299', `${h}299 X\r\n${body}`, 299],
  ['999', `${h}999 X\r\n${body}`, 999],
  ['600', `${h}600 X\r\n${body}`, 600],
  ['no reason', `${h}200\r\n${body}`, 200],
  ['no reason, blank', `${h}200 \r\n${body}`, 200],
  ['a reason of UTF-8', `${h}200 \xc3\xa9\r\n${body}`, 200],
  ['two blanks before the status', `HTTP/1.1  200 OK\r\n${body}`, 200],
  ['a tab before the status', `HTTP/1.1\t200 OK\r\n${body}`, 0],
  ['a status of two digits', `${h}20 OK\r\n${body}`, 0],
  ['a status of four digits', `${h}2000 OK\r\n${body}`, 0],
  ['099', `${h}099 X\r\n${body}`, 0],
  ['no status', `${h}OK\r\n${body}`, 0],
  ['HTTP/1.0', `HTTP/1.0 200 OK\r\n${body}`, 200],
  ['HTTP/1.2', `HTTP/1.2 200 OK\r\n${body}`, 200],
  ['HTTP/2.0', `HTTP/2.0 200 OK\r\n${body}`, 200],
  ['HTTP/2', `HTTP/2 200\r\n${body}`, 200],
  ['HTTP/3.0', `HTTP/3.0 200 OK\r\n${body}`, 0],
  ['lower case', `http/1.1 200 OK\r\n${body}`, 0],
  ['Icecast', `ICY 200 OK\r\n${body}`, 0],
  ['HTTP/0.9', '<html>ok</html>', 0],
  ['a blank before it', ` ${ok}${body}`, 0],
  // They take it for none. On a kept connection it is the end of the answer before.
  ['an empty line before it', `\r\n${ok}${body}`, 200],
  ['a BOM before it', `\xef\xbb\xbf${ok}${body}`, 0],
  ['half a version', 'HTTP/1', 0],
  ['a status without the end of the line', `${h}200 OK`, 0],
  ['a status line only', ok, 200],
  ['no end of the headers', `${ok}content-length: 2\r\n`, 200],
  ['LF only', `${h}200 OK\ncontent-length: 2\n\nok`, 200],
  ['LF in the status line', `${h}200 OK\n${body}`, 200],
  ['CRCRLF', `${h}200 OK\r\r\ncontent-length: 2\r\r\n\r\r\nok`, 200],
  ['CRCRLF, no reason', `${h}200\r\r\n${body}`, 200],
  ['a CR in the reason', `${h}200 O\rK\r\n${body}`, 200],
  ['a tab after the status', `${h}200\tOK\r\n${body}`, 200],
  ['CR only', `${h}200 OK\rcontent-length: 2\r\rok`, 0],
  ['chunks without an end', `${ok}transfer-encoding: chunked\r\n\r\n2\r\nok\r\n`, 200],
];

/** What is odd about an answer with this status line, and whether the connection is used again. */
const oddities: [what: string, after: string, isKept?: boolean][] = [
  ...['Server', 'Content-Type', 'Retry-After', 'Connection', 'X-A'].flatMap((name): typeof oddities => [
    [`folds ${name} with a blank`, `${name}: a\r\n b\r\n${body}`],
    [`folds ${name} with a tab`, `${name}: a;\r\n\tb\r\n c\r\n${body}`],
    [`has a blank before the colon of ${name}`, `${name} : a\r\n${body}`],
    [`has no colon after ${name}`, `${name}\r\n${body}`],
    [`has a control character in ${name}`, `${name}: a\x01b\x00\r\n${body}`],
    [`has a bare CR in ${name}`, `${name}: a\rb\r\n${body}`],
    [`has 20 KiB of ${name} in ten pieces`, `${name}: ${twoKib}\r\n`.repeat(10) + body, true],
    [`has ${name} twice`, `${name}: a\r\n${name}: a\r\n${body}`, true],
  ]),
  ['folds before the first header', ` folded\r\n${body}`],
  ['has a header without a name', `: a\r\n${body}`],
  ['has bytes above ASCII', `x: \xe9\xff\r\n${body}`, true],
  ['has an empty value', `x:\r\n${body}`, true],
  ['repeats an equal Content-Length', `content-length: 2\r\n${body}`],
  ['has another Content-Length too', `content-length: 3\r\n${body}`],
  ['lists its Content-Length', 'content-length: 2, 2\r\n\r\nok'],
  ['has a Content-Length that is no number', 'content-length: two\r\n\r\nok'],
  ['has a negative Content-Length', 'content-length: -2\r\n\r\nok'],
  ['has chunks and a length', `transfer-encoding: chunked\r\ncontent-length: 9\r\n\r\n2\r\nok\r\n0\r\n\r\n`],
  ['has chunks', 'transfer-encoding: chunked\r\n\r\n2;a=b\r\nok\r\n0\r\nx: y\r\n\r\n', true],
  ['has a chunk of a wrong size', 'transfer-encoding: chunked\r\n\r\n2\r\nokay\r\n0\r\n\r\n'],
  ['has a chunk without a size', 'transfer-encoding: chunked\r\n\r\nx\r\nok\r\n0\r\n\r\n'],
  ['has another coding', 'transfer-encoding: gzip, chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n'],
  ['has more than its Content-Length', `${body}!`],
  ['has a whole second answer', `${body}${ok}${body}`],
  ['ends its lines with CRCRLF', 'content-length: 2\r\r\n\r\r\nok'],
  ['closes', `connection: close\r\n${body}`],
  ['offers an upgrade', `upgrade: h2,h2c\r\nconnection: Upgrade, Keep-Alive\r\n${body}`, true],
  ['keeps the connection for a second', `keep-alive: timeout=1\r\n${body}`],
  ['keeps the connection for a minute', `keep-alive: timeout=60, max=5\r\n${body}`, true],
];

describe('an answer counts by its status line', () => {
  const { start, sending } = useNetwork();

  /** Sends two POSTs in turn, and returns the results and the number of connections. */
  async function exchange(answer: string | ((socket: Socket, count: number) => unknown)) {
    const does = typeof answer === 'string' ? (s: Socket) => s.write(answer, 'latin1') : answer;
    const receiver = await start({ answer: does });
    const sender = sending();
    const results = [await sender.post(requestTo(receiver.url)), await sender.post(requestTo(receiver.url))];
    const requests = receiver.received().split('POST ').length - 1;
    return { results, accepted: receiver.accepted(), requests };
  }

  for (const status of [200, 503])
    for (const [what, after, isKept = false] of oddities)
      it(`${status}, also if it ${what}; the connection is ${isKept ? 'kept' : 'closed'}`, async () => {
        const { results, accepted, requests } = await exchange(`HTTP/1.1 ${status} X\r\n${after}`);
        const outcomes = results.map((r) => [r.ok, r.status]);
        assert.deepEqual(
          outcomes,
          [0, 1].map(() => [status === 200, status]),
        );
        assert.deepEqual([accepted, requests], [isKept ? 1 : 2, 2]);
      });

  for (const [what, answer, counts] of beginnings)
    it(`${what}: ${counts || 'no answer'}`, async () => {
      const { url } = await start({ answer: (s) => s.end(answer, 'latin1') });
      const { status = 0 } = await sending().post(requestTo(url));
      assert.equal(status, counts);
    });

  it('after any number of each 1xx but 101, in one segment or in many', async () => {
    const codes = times(100).map((i) => 100 + i);
    const interim = (code: number) => `HTTP/1.1 ${code} Soon\r\n${code % 2 ? 'link: </a>\r\n' : ''}\r\n`;
    const final = `${ok}${body}`;
    for (const code of codes.filter((code) => code !== 101))
      for (const count of [1, 300]) {
        const whole = await exchange(interim(code).repeat(count) + final);
        assert.deepEqual([whole.results.map((r) => r.ok), whole.accepted], [[true, true], 1], `${code}`);
      }
    const { results } = await exchange(async (socket) => {
      for (const byte of interim(100) + interim(103) + final) {
        socket.write(byte);
        await new Promise(setImmediate);
      }
    });
    const outcomes = results.map((r) => r.ok);
    assert.deepEqual(outcomes, [true, true]);
  });

  it('so bytes after the end of a 204 or 304, 0 to 20 ms later, spoil no other POST', async () => {
    const framings = [
      'transfer-encoding: chunked',
      'transfer-encoding: gzip',
      'content-length: 5',
      'content-length: 0',
      '',
    ];
    const ends = ['0\r\n\r\n', '\r\n', 'ok', '5\r\nhello\r\n0\r\n\r\n'];
    await Promise.all(
      [204, 304].flatMap((status) =>
        framings.flatMap((framing) =>
          ends.map(async (end, i) => {
            const head = `HTTP/1.1 ${status} X\r\n${framing === '' ? '' : `${framing}\r\n`}\r\n`;
            const receiver = await start({
              answer: (s, count) => {
                s.write(head);
                const afterMs = (count + i) % 21;
                setTimeout(() => s.writable && s.write(end), afterMs);
              },
            });
            const sender = sending();
            const expected = [status, status === 204 ? undefined : 'redirect'];
            for (const _ of times(21)) {
              const { status: got, error } = await sender.post(requestTo(receiver.url));
              assert.deepEqual([got, error], expected, `${framing} ${end}`);
            }
          }),
        ),
      ),
    );
  });

  it('of its own: on a kept connection whatever else comes first has the POST sent once more', async () => {
    for (const late of ['0\r\n\r\n', 'ok', '\0', '{}', '220 x\r\n', 'HTTP/1.1 408 Late\r\n\r\n']) {
      const { results, accepted, requests } = await exchange((s, count) => {
        if (count === 2) s.write(late);
        s.write(noContent);
      });
      assert.deepEqual([results.map((r) => r.ok), accepted, requests], [[true, true], 2, 3], late);
    }
  });
});
