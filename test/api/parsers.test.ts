/** Every parser of what a stranger sends, with the input that costs it most and the size up to which it gets any. */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { IncomingMessage, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import { join } from 'node:path';
import fc from 'fast-check';
import Koa from 'koa';

import { readEnrichmentEvent } from '../../src/api/calls/enrichments.js';

import { bearerToken } from '../../src/api/steps/publisher.js';
import { readConfig } from '../../src/config.js';
import { ApiError } from '../../src/http/apiError.js';
import { formAtMostBytes, requireKnownCharset } from '../../src/http/body.js';
import { clientAddress } from '../../src/http/clientAddress.js';
import { parseMultipart } from '../../src/http/multipart.js';
import { parametersAtMost, parseParameters, readQuery, required } from '../../src/http/query.js';
import { givenTime } from '../../src/http/schemas.js';
import { resultOf } from '../../src/outgoing/answer.js';
import { AnswerReader } from '../../src/outgoing/answerReader.js';
import { checkTargetForm } from '../../src/outgoing/target.js';
import { sessionCookies } from '../../src/web/cookies.js';

interface ParserCase<Input = unknown> {
  name: string;
  /** The cap on what reaches the parser. */
  bytesAtMost: number;
  make(bytes: number): Input;
  /** Measured; it may throw, as none of this input is valid. */
  parse(input: Input): unknown;
}

const head = 32 * 1024;
const json = 1024 * 1024;

const filled = (piece: string, bytes: number): string => piece.repeat(Math.floor(bytes / piece.length));
const form = (bytes: number, filling: string, before = `${partHead}\r\n`): Buffer =>
  Buffer.from(`${before}${filled(filling, bytes - 80)}\r\n--b--\r\n`);
const partHead = '--b\r\ncontent-disposition: form-data; name="a"\r\n';
const known = { client_token: 'SITE0042', platform_id: 'vid-9', segments: ['iab:17'] };
const trusted = ['127.0.0.0/8', '10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', 'fd00::/8'];

/** @param inputs by their name, for one parser */
function casesOf<Input>(
  parser: string,
  bytesAtMost: number,
  parse: (input: Input) => unknown,
  inputs: Record<string, (bytes: number) => Input>,
): ParserCase[] {
  return Object.entries(inputs).map(([input, make]) => {
    return { name: `${parser}: ${input}`, bytesAtMost, make, parse } as ParserCase;
  });
}

const parserCases: ParserCase[] = [
  ...casesOf('query parameters', head, parseParameters, {
    '`a&a&...`': (bytes) => filled('a&', bytes),
    'other names': (bytes) => Array.from({ length: bytes / 10 }, (_, i) => `k${i}=1&`).join(''),
    'one long percent-encoded value': (bytes) => `url=${filled('%41', bytes)}`,
    '`&&&...`': (bytes) => filled('&', bytes),
    '`url=url=...`': (bytes) => filled('url=', bytes),
  }),
  ...casesOf(
    'query with an unknown name',
    head,
    (query: string) => readQuery(query, ['of_ours'], new Map()),
    {
      blanks: (bytes) => `x=${filled('+', bytes)}`,
      'line ends': (bytes) => `x=${filled('%0A', bytes)}`,
      '`?of_ours?of_ours...`': (bytes) => `x=${filled('?of_ours', bytes)}`,
      '`url=url=...`': (bytes) => `x=${filled('url=', bytes)}`,
    },
  ),
  ...casesOf('form without a field', head, (value: string) => required(new Map([['x', value]]), 'of_ours'), {
    blanks: (bytes) => filled(' ', bytes),
    'a long name': (bytes) => filled('of_ours', bytes),
  }),
  ...['content-type', 'content-encoding', 'retry-after', 'date'].flatMap((header) =>
    casesOf(
      `${header} of a receiver`,
      2 * head,
      (value: string) => {
        const valuesOf = (name: string) => (name === header ? [value] : []);
        const excerpt = Buffer.from('no');
        return resultOf({ status: 503, isReused: false, excerpt, bodyBytes: 2, valuesOf } as never);
      },
      {
        blanks: (bytes) => `a${filled(' ', bytes)}b`,
        '`charset charset ...`': (bytes) => filled('charset ', bytes),
        'blanks before =': (bytes) => `charset${filled(' ', bytes)}`,
        codings: (bytes) => filled('x,', bytes),
        digits: (bytes) => filled('1', bytes),
      },
    ),
  ),
  ...casesOf('answer of a receiver', 2 * head, (pieces: Buffer[]) => readPieces(pieces), {
    'a header in many lines': (bytes) => [
      Buffer.from(`HTTP/1.1 500 No\r\na: b\r\n${filled(' c\n', bytes - 40)}`),
    ],
    'one byte at a time': (bytes) =>
      Array.from(Buffer.from(`HTTP/1.1 500 No\r\na: ${filled('b', bytes - 40)}`), (byte) => Buffer.of(byte)),
    'a status line, one byte at a time': (bytes) =>
      Array.from(Buffer.from(`HTTP/1.1 500 ${filled('N', bytes - 40)}`), (byte) => Buffer.of(byte)),
  }),
  ...casesOf('time in a query', head, (text) => givenTime('').safeParse(text), {
    parentheses: (bytes) => `2026-01-31${filled('(', bytes)}`,
  }),
  ...casesOf(
    'URL to register',
    head,
    (url: string) => checkTargetForm(url, { allowHttp: false, allowedCidrs: [], ownPorts: [] }),
    { '`https://a/@@@...`': (bytes) => `https://a/${filled('@', bytes)}` },
  ),
  ...casesOf('Content-Type', head, requireKnownCharset, {
    '`; charset ; charset ...`': (bytes) => `multipart/form-data${filled('; charset ', bytes)}`,
  }),
  ...casesOf('X-Forwarded-For', head, (ctx: Koa.Context) => clientAddress(ctx.req, trusted), {
    'trusted addresses, 5 ranges trusted': (bytes) =>
      contextWith({ 'x-forwarded-for': `${filled('fd00::1,', bytes)}fd00::1` }, 'fd00::1'),
  }),
  ...casesOf('Authorization', head, (ctx: Koa.Context) => bearerToken({ req: ctx.req }), {
    'blanks, then a token, then blanks': (bytes) => {
      const blanks = filled(' ', bytes / 3);
      return contextWith({ authorization: `bearer ${blanks}${filled('x', bytes / 3)}${blanks}x` });
    },
  }),
  ...casesOf(
    'Cookie',
    head,
    (ctx: Koa.Context) => sessionCookies('console_session', readConfig({})).secretOf(ctx),
    { '`;;;...`': (bytes) => contextWith({ cookie: filled(';', bytes), host: 'a' }) },
  ),
  ...casesOf(
    'Content-Type of a multipart form',
    head,
    (type: string) => parseMultipart(Buffer.from('--b--'), type),
    { '`;a=";a=...`': (bytes) => `multipart/form-data; boundary=b${filled(';a="', bytes)}` },
  ),
  ...casesOf(
    'multipart form',
    formAtMostBytes,
    (body: Buffer) => parseMultipart(body, 'multipart/form-data; boundary=b'),
    {
      'one long value': (bytes) => form(bytes, 'x'),
      'line ends': (bytes) => form(bytes, '\r'),
      'beginnings of a boundary': (bytes) => form(bytes, '\r\n--'),
      parts: (bytes) => form(bytes, '--b\r\n\r\n\r\n', ''),
      'headers of a part': (bytes) => form(bytes, 'a: b\r\n', partHead),
      '`filename="filename="...`': (bytes) => form(bytes, 'filename="', '--b\r\ncontent-disposition: '),
    },
  ),
  ...casesOf('enrichment event', json, (raw) => readEnrichmentEvent(raw, ''), {
    'names that are not known': (bytes) =>
      Object.fromEntries(Array.from({ length: bytes / 12 }, (_, i) => [`k${i}`, 0])),
    segments: (bytes) => ({ ...known, segments: Array.from({ length: bytes / 4 }, () => 'a') }),
    'a long asset id': (bytes) => ({ ...known, platform_id: filled('\u{1f3ac}', bytes) }),
  }),
];

function readPieces(pieces: readonly Buffer[]): void {
  const reader = new AnswerReader();
  for (const piece of pieces) reader.read(piece);
}

function contextWith(headers: Record<string, string>, remoteAddress = ''): Koa.Context {
  const req = new IncomingMessage(new Socket());
  Object.assign(req, { method: 'GET', url: '/', headers });
  Object.defineProperty(req.socket, 'remoteAddress', { value: remoteAddress });
  return new Koa().createContext(req, new ServerResponse(req));
}

/** The least CPU time that the parser took, of several tries, ms: another process on the machine does not count. */
async function parserTimeMs({ make, parse }: ParserCase, bytes: number): Promise<number> {
  let least = Number.POSITIVE_INFINITY;
  for (let tried = 0; tried < 7; tried++) {
    const input = make(bytes);
    const begun = process.cpuUsage();
    try {
      await parse(input);
    } catch {
      // Refused is as good as read.
    }
    const { user, system } = process.cpuUsage(begun);
    least = Math.min(least, (user + system) / 1000);
  }
  return least;
}

describe('parsers of what strangers send', () => {
  describe('take time that grows no faster than their input', () => {
    const small = 1 / 16;
    /** Linear is 16, quadratic 256: between them, in factors, so that a busy machine fails nothing. */
    const growthAtMost = 64;
    /** Below it the clock says nothing, and nobody is held up. */
    const shortMs = 1;
    /** A parser that is too slow is so each time; a machine is busy only for a moment. */
    const tries = 3;

    for (const one of parserCases)
      it(one.name, async () => {
        const seen: string[] = [];
        for (let tried = 0; tried < tries; tried++) {
          const few = await parserTimeMs(one, one.bytesAtMost * small);
          const all = await parserTimeMs(one, one.bytesAtMost);
          if (all < shortMs || all < few * growthAtMost) return;
          seen.push(`${few} ms, then ${all} ms`);
        }
        assert.fail(seen.join('; '));
      });
  });

  it('read up to 32 parameters and anything behind them, and decode each once, also one named like a property', () => {
    const most = Array.from({ length: parametersAtMost }, (_, i) => `k${i}=1`).join('&');
    assert.equal(parseParameters(most).size, parametersAtMost);
    assert.deepEqual(
      [...parseParameters('__proto__=a%2Bb+c&constructor&&x==%25')],
      Object.entries({ ['__proto__']: 'a+b c', constructor: '', x: '=%' }),
    );
    for (const [query, refused] of [
      [`${most}&one=more&%zz`, { code: 'too_many_parameters' }],
      ['a=1&%61=2', /a is repeated/],
      ['a=%e9', /a is not correctly percent-encoded: its bytes are no UTF-8/],
      ['a=100%', /a is not correctly percent-encoded: send a % as %25/],
    ] as const)
      assert.throws(() => parseParameters(query), refused);
  });

  it('are not those of ctx.query, which take quadratic time', () => {
    const folder = join(import.meta.dirname, '../../src/api');
    for (const file of readdirSync(folder, { recursive: true, encoding: 'utf8' }))
      if (file.endsWith('.ts'))
        assert.doesNotMatch(readFileSync(join(folder, file), 'utf8'), /[^`]ctx\.query\b/);
  });

  it('read the newest 16 addresses of X-Forwarded-For, with or without a port, from a trusted proxy only', () => {
    const names = (count: number) =>
      Array.from({ length: count }, (_, i) => `10.0.${i >> 8}.${i & 255}`).join(', ');
    const addressOf = (header: string, trusted = '10.0.0.0/8', via = '10.0.0.1') =>
      clientAddress(contextWith({ 'x-forwarded-for': header }, via).req, [trusted]);
    assert.equal(addressOf('198.51.100.7', '::ffff:10.0.0.0/104'), '198.51.100.7');
    assert.equal(addressOf(`203.0.113.7, ${names(15)}`), '203.0.113.7');
    assert.equal(addressOf(`203.0.113.7, ${names(256)}`), '10.0.0.240');
    assert.equal(addressOf('203.0.113.7:50123, 10.0.0.2:443'), '203.0.113.7');
    for (const port of ['', ':50123']) assert.equal(addressOf(`[2001:db8::1]${port}`), '2001:db8::1');
    assert.equal(addressOf('198.51.100.1', undefined, '203.0.113.9'), '203.0.113.9');
  });

  it('read or refuse a form of any bytes, without other errors', async () => {
    const beside: unknown[] = [];
    const note = (err: unknown) => beside.push(err);
    process.on('unhandledRejection', note);
    const disposition = 'content-disposition: form-data; name="a"';
    const piece = fc.oneof(
      fc.constantFrom('--b', '--b--', '\r\n', '\r', '\n', '\r\n\r\n', '%41'),
      fc.constantFrom(':', ';', '"', '=', '&', '%', '[', ' '),
      fc.constantFrom(disposition, 'content-type: text/plain; charset=latin1', 'content-transfer-encoding: '),
      fc.constantFrom('7bit', 'base64', 'quoted-printable', 'filename="f"', 'name=a', '\u0000', '\xff'),
      fc.string({ maxLength: 60 }),
    );
    const repeated = fc
      .tuple(piece, fc.oneof(fc.constant(1), fc.nat(4096)))
      .map(([text, n]) => text.repeat(n).slice(0, formAtMostBytes));
    const parsers = [
      (body: Buffer) => parseMultipart(body, 'multipart/form-data; boundary=b'),
      async (body: Buffer) => parseParameters(body.toString()),
    ];
    await fc.assert(
      fc.asyncProperty(fc.array(repeated, { maxLength: 60 }), async (pieces) => {
        const body = Buffer.from(pieces.join('').slice(0, formAtMostBytes), 'latin1');
        for (const parse of parsers)
          await parse(body).catch((err: unknown) => assert.ok(err instanceof ApiError, String(err)));
      }),
      { numRuns: 1000 },
    );
    await new Promise(setImmediate);
    process.off('unhandledRejection', note);
    assert.deepEqual(beside, []);
  });
});
