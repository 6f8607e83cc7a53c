/**
 * Every parser of what a stranger sends, with the input that costs it most and the size up to which it gets any. The
 * test compares two sizes.
 */
import { IncomingMessage, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import Koa from 'koa';
import { clientAddress } from '../../src/api/clientAddress.js';
import { sessionCookies } from '../../src/api/console/door.js';
import { readEnrichmentEvent } from '../../src/api/endpoints/enrichments.js';
import { givenTime } from '../../src/api/reference/schemas.js';
import { formAtMostBytes, parseMultipart, requireKnownCharset } from '../../src/api/steps/body.js';
import { bearerToken } from '../../src/api/steps/publisher.js';
import { parseParameters } from '../../src/api/steps/query.js';
import { readConfig } from '../../src/config.js';
import { checkTargetForm } from '../../src/outgoing/target.js';

export interface ParserCase<Input = unknown> {
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

export const parserCases: ParserCase[] = [
  ...casesOf('query parameters', head, parseParameters, {
    '`a&a&...`': (bytes) => filled('a&', bytes),
    'other names': (bytes) => Array.from({ length: bytes / 10 }, (_, i) => `k${i}=1&`).join(''),
    'one long percent-encoded value': (bytes) => `url=${filled('%41', bytes)}`,
    '`&&&...`': (bytes) => filled('&', bytes),
    '`url=url=...`': (bytes) => filled('url=', bytes),
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
  ...casesOf('X-Forwarded-For', head, (req: IncomingMessage) => clientAddress(req, trusted), {
    'trusted addresses, 5 ranges trusted': (bytes) =>
      requestVia('fd00::1', `${filled('fd00::1,', bytes)}fd00::1`),
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

function contextWith(headers: Record<string, string>): Koa.Context {
  const req = new IncomingMessage(new Socket());
  Object.assign(req, { method: 'GET', url: '/', headers });
  return new Koa().createContext(req, new ServerResponse(req));
}

/** A request from an address, which says for whom it is. */
export function requestVia(remoteAddress: string, forwardedFor: string): IncomingMessage {
  const req = new IncomingMessage(new Socket());
  Object.defineProperty(req.socket, 'remoteAddress', { value: remoteAddress });
  req.headers['x-forwarded-for'] = forwardedFor;
  return req;
}

/** The least CPU time that the parser took, of several tries, ms: another process on the machine does not count. */
export async function parserTimeMs(
  { make, parse }: Pick<ParserCase, 'make' | 'parse'>,
  bytes: number,
  tries = 7,
): Promise<number> {
  let least = Number.POSITIVE_INFINITY;
  for (let tried = 0; tried < tries; tried++) {
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
