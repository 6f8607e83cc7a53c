/**
 * Every parser of what a stranger sends, with the input that costs it most and the size up to which it gets any. The
 * test compares two sizes; `npx tsx test/api/parserTimes.ts` prints the table of docs/bad-input.md.
 */
import { IncomingMessage, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import Router from '@koa/router';
import Koa from 'koa';
import { clientAddress } from '../../src/api/clientAddress.js';
import { secretOf } from '../../src/api/console/access.js';
import { endpoints } from '../../src/api/endpoints.js';
import { givenTime } from '../../src/api/reference/schemas.js';
import type { ApiDeps } from '../../src/api/step.js';
import {
  charsetOf,
  formAtMostBytes,
  parseMultipart,
  parseUrlencoded,
  readPlain,
} from '../../src/api/steps/form.js';
import { parseJson } from '../../src/api/steps/json.js';
import { bearerToken } from '../../src/api/steps/publisher.js';
import { parseParameters } from '../../src/api/steps/query.js';
import { readConfig } from '../../src/config.js';
import { readEnrichmentEvent } from '../../src/delivery/event.js';
import { checkTargetForm } from '../../src/outgoing/target.js';

export interface ParserCase {
  parser: string;
  input: string;
  /** The cap on what reaches the parser. */
  bytesAtMost: number;
  /** @returns the measured function; it may throw, as none of this input is valid */
  prepare(bytes: number): () => unknown;
}

const head = 32 * 1024;
const json = 1024 * 1024;

const filled = (piece: string, bytes: number): string => piece.repeat(Math.floor(bytes / piece.length));
const numbered = (bytes: number, each: (i: number) => string): string => {
  let text = '';
  for (let i = 0; text.length < bytes - 16; i++) text += each(i);
  return text;
};

const query = (input: string, make: (bytes: number) => string): ParserCase => ({
  parser: 'query parameters',
  input,
  bytesAtMost: head,
  prepare: (bytes) => {
    const text = make(bytes);
    return () => parseParameters(text);
  },
});

const urlencoded = (input: string, make: (bytes: number) => string): ParserCase => ({
  parser: 'urlencoded form',
  input,
  bytesAtMost: formAtMostBytes,
  prepare: (bytes) => {
    const body = Buffer.from(make(bytes));
    return () => parseUrlencoded(body, 'utf-8');
  },
});

const partHead = '--b\r\ncontent-disposition: form-data; name="a"\r\n';
const multipart = (input: string, make: (bytes: number) => string): ParserCase => ({
  parser: 'multipart form',
  input,
  bytesAtMost: formAtMostBytes,
  prepare: (bytes) => {
    const body = Buffer.from(`${make(bytes - 80)}\r\n--b--\r\n`);
    return () => parseMultipart(body, 'multipart/form-data; boundary=b');
  },
});

const jsonText = (input: string, make: (bytes: number) => string): ParserCase => ({
  parser: 'JSON',
  input,
  bytesAtMost: json,
  prepare: (bytes) => {
    const body = Buffer.from(make(bytes));
    return () => parseJson(body);
  },
});

const event = (input: string, make: (bytes: number) => unknown): ParserCase => ({
  parser: 'enrichment event',
  input,
  bytesAtMost: json,
  prepare: (bytes) => {
    const raw = make(bytes);
    return () => readEnrichmentEvent(raw, '');
  },
});
const known = { client_token: 'SITE0042', platform_id: 'vid-9', segments: ['iab:17'] };

export const parserCases: ParserCase[] = [
  query('`a&a&...`', (bytes) => filled('a&', bytes)),
  query('`&&&...`', (bytes) => filled('&', bytes)),
  query('other names', (bytes) => numbered(bytes, (i) => `k${i}=1&`)),
  query('one long percent-encoded value', (bytes) => `url=${filled('%41', bytes)}`),
  query('`url=url=...`', (bytes) => filled('url=', bytes)),
  {
    parser: 'time in a query',
    input: 'parentheses',
    bytesAtMost: head,
    prepare: (bytes) => {
      const text = `2026-01-31${filled('(', bytes)}`;
      return () => givenTime('').safeParse(text);
    },
  },
  {
    parser: 'URL to register',
    input: '`https://a/@@@...`',
    bytesAtMost: head,
    prepare: (bytes) => {
      const url = `https://a/${filled('@', bytes)}`;
      return () => checkTargetForm(url, { allowHttp: false, allowedCidrs: [], ownPorts: [] });
    },
  },
  {
    parser: 'Content-Type',
    input: '`; charset ; charset ...`',
    bytesAtMost: head,
    prepare: (bytes) => {
      const text = `multipart/form-data${filled('; charset ', bytes)}`;
      return () => charsetOf(text);
    },
  },
  {
    parser: 'X-Forwarded-For',
    input: 'trusted addresses, 5 ranges trusted',
    bytesAtMost: head,
    prepare: (bytes) => {
      const req = requestVia('fd00::1', `${filled('fd00::1,', bytes)}fd00::1`);
      const trusted = ['127.0.0.0/8', '10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', 'fd00::/8'];
      return () => clientAddress(req, trusted);
    },
  },
  {
    parser: 'Authorization',
    input: 'blanks, then a token, then blanks',
    bytesAtMost: head,
    prepare: (bytes) => {
      const blanks = filled(' ', bytes / 3);
      const text = `bearer ${blanks}${filled('x', bytes / 3)}${blanks}x`;
      const req = new IncomingMessage(new Socket());
      req.headers = { authorization: text };
      return () => bearerToken({ req });
    },
  },
  {
    parser: 'Cookie',
    input: '`;;;...`',
    bytesAtMost: head,
    prepare: (bytes) => {
      const ctx = contextWith({ cookie: filled(';', bytes), host: 'a' });
      return () => secretOf(ctx, { config: readConfig({}) } as ApiDeps);
    },
  },
  {
    parser: 'If-None-Match',
    input: '`W/,W/,...`',
    bytesAtMost: head,
    prepare: (bytes) => {
      const ctx = contextWith({ 'if-none-match': filled('W/,', bytes) });
      ctx.status = 200;
      ctx.etag = 'a';
      return () => ctx.fresh;
    },
  },
  {
    parser: 'Accept-Encoding',
    input: '`a;q=0.1,...`',
    bytesAtMost: head,
    prepare: (bytes) => {
      const ctx = contextWith({ 'accept-encoding': numbered(bytes, (i) => `a${i};q=0.${i},`) });
      return () => ctx.acceptsEncodings('gzip', 'identity');
    },
  },
  {
    parser: 'Content-Type of a multipart form',
    input: '`;a=";a=...`',
    bytesAtMost: head,
    prepare: (bytes) => {
      const type = `multipart/form-data; boundary=b${filled(';a="', bytes)}`;
      return () => parseMultipart(Buffer.from('--b--'), type);
    },
  },
  {
    parser: 'path, by the router',
    input: '`/notifications///...`',
    bytesAtMost: head,
    prepare: (bytes) => {
      const router = new Router({ sensitive: true });
      for (const { path } of endpoints) router.get(path.replaceAll(/\{(\w+)\}/g, ':$1'), () => undefined);
      for (const path of ['sites/:site/notifications/:id/redeliver', '*nowhere'])
        router.get(`/console/${path}`, () => undefined);
      const path = `/notifications/${filled('%41', bytes / 2)}${filled('/', bytes / 2)}`;
      return () => router.match(path, 'GET');
    },
  },
  urlencoded('`a&a&...`', (bytes) => filled('a&', bytes)),
  urlencoded('other names', (bytes) => numbered(bytes, (i) => `k${i}=1&`)),
  urlencoded('one long percent-encoded value', (bytes) => `a=${filled('%41', bytes)}`),
  {
    parser: 'body, by its chunks',
    input: 'chunks of one byte',
    bytesAtMost: formAtMostBytes,
    prepare: (bytes) => {
      const req = new IncomingMessage(new Socket());
      for (let i = 0; i < bytes; i++) req.push('a');
      req.push(null);
      return () => readPlain(req, formAtMostBytes);
    },
  },
  urlencoded('brackets and dots', (bytes) => `a${filled('[.', bytes)}=1`),
  multipart('one long value', (bytes) => `${partHead}\r\n${filled('x', bytes)}`),
  multipart('line ends', (bytes) => `${partHead}\r\n${filled('\r', bytes)}`),
  multipart('beginnings of a boundary', (bytes) => `${partHead}\r\n${filled('\r\n--', bytes)}`),
  multipart('parts', (bytes) => filled('--b\r\n\r\n\r\n', bytes)),
  multipart('headers of a part', (bytes) => `${partHead}${filled('a: b\r\n', bytes)}\r\n`),
  multipart(
    '`filename="filename="...`',
    (bytes) => `--b\r\ncontent-disposition: ${filled('filename="', bytes)}\r\n`,
  ),
  jsonText('lists in lists', (bytes) => filled('[', bytes / 2) + filled(']', bytes / 2)),
  jsonText('objects in objects', (bytes) => `${filled('{"a":', bytes * 0.8)}1${filled('}', bytes * 0.16)}`),
  jsonText('names', (bytes) => `{${numbered(bytes, (i) => `"k${i}":0,`)}"z":0}`),
  jsonText('names that are numbers', (bytes) => `{${numbered(bytes, (i) => `"${i * 4096}":0,`)}"z":0}`),
  jsonText('one number', (bytes) => filled('9', bytes)),
  jsonText('escapes', (bytes) => `"${filled('\\u0041', bytes)}"`),
  event('names that are not known', (bytes) =>
    Object.fromEntries(Array.from({ length: bytes / 12 }, (_, i) => [`k${i}`, 0])),
  ),
  event('segments', (bytes) => ({ ...known, segments: Array.from({ length: bytes / 4 }, () => 'a') })),
  event('a long asset id', (bytes) => ({ ...known, platform_id: filled('\u{1f3ac}', bytes) })),
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
export async function parserTimeMs({ prepare }: ParserCase, bytes: number): Promise<number> {
  let least = Number.POSITIVE_INFINITY;
  for (let tried = 0; tried < 7; tried++) {
    const parse = prepare(bytes);
    const begun = process.cpuUsage();
    try {
      await parse();
    } catch {
      // Refused is as good as read.
    }
    const { user, system } = process.cpuUsage(begun);
    least = Math.min(least, (user + system) / 1000);
  }
  return least;
}
