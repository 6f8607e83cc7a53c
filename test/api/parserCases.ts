/**
 * Every parser of what a stranger sends, with the input that costs it most and the size up to which it gets any. The
 * test compares two sizes.
 */
import { IncomingMessage, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import Router from '@koa/router';
import Koa from 'koa';
import { clientAddress } from '../../src/api/clientAddress.js';
import { sessionSecret } from '../../src/api/console/access.js';
import { readEnrichmentEvent } from '../../src/api/endpoints/enrichments.js';
import { endpoints } from '../../src/api/endpoints.js';
import { givenTime } from '../../src/api/reference/schemas.js';
import type { ApiDeps } from '../../src/api/step.js';
import { formAtMostBytes, parseMultipart, readBytes, requireKnownCharset } from '../../src/api/steps/body.js';
import { bearerToken } from '../../src/api/steps/publisher.js';
import { parseParameters } from '../../src/api/steps/query.js';
import { readConfig } from '../../src/config.js';
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

function casesOf<T>(
  parser: string,
  bytesAtMost: number,
  inputs: Record<string, (bytes: number) => T>,
  prepare: (input: T) => () => unknown,
): ParserCase[] {
  return Object.entries(inputs).map(([input, make]) => {
    return { parser, input, bytesAtMost, prepare: (bytes) => prepare(make(bytes)) };
  });
}

const partHead = '--b\r\ncontent-disposition: form-data; name="a"\r\n';
const known = { client_token: 'SITE0042', platform_id: 'vid-9', segments: ['iab:17'] };
const trusted = ['127.0.0.0/8', '10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', 'fd00::/8'];
const pairs = {
  '`a&a&...`': (bytes: number) => filled('a&', bytes),
  'other names': (bytes: number) => numbered(bytes, (i) => `k${i}=1&`),
  'one long percent-encoded value': (bytes: number) => `url=${filled('%41', bytes)}`,
};

export const parserCases: ParserCase[] = [
  ...casesOf(
    'query parameters',
    head,
    {
      ...pairs,
      '`&&&...`': (bytes) => filled('&', bytes),
      '`url=url=...`': (bytes) => filled('url=', bytes),
    },
    (text) => () => parseParameters(text),
  ),
  ...casesOf(
    'time in a query',
    head,
    { parentheses: (bytes) => `2026-01-31${filled('(', bytes)}` },
    (text) => {
      return () => givenTime('').safeParse(text);
    },
  ),
  ...casesOf(
    'URL to register',
    head,
    { '`https://a/@@@...`': (bytes) => `https://a/${filled('@', bytes)}` },
    (url) => {
      return () => checkTargetForm(url, { allowHttp: false, allowedCidrs: [], ownPorts: [] });
    },
  ),
  ...casesOf(
    'Content-Type',
    head,
    { '`; charset ; charset ...`': (bytes) => `multipart/form-data${filled('; charset ', bytes)}` },
    (type) => () => requireKnownCharset(type),
  ),
  ...casesOf(
    'X-Forwarded-For',
    head,
    { 'trusted addresses, 5 ranges trusted': (bytes) => `${filled('fd00::1,', bytes)}fd00::1` },
    (forwardedFor) => {
      const req = requestVia('fd00::1', forwardedFor);
      return () => clientAddress(req, trusted);
    },
  ),
  ...casesOf(
    'Authorization',
    head,
    {
      'blanks, then a token, then blanks': (bytes) => {
        const blanks = filled(' ', bytes / 3);
        return `bearer ${blanks}${filled('x', bytes / 3)}${blanks}x`;
      },
    },
    (authorization) => {
      const { req } = contextWith({ authorization });
      return () => bearerToken({ req });
    },
  ),
  ...casesOf('Cookie', head, { '`;;;...`': (bytes) => filled(';', bytes) }, (cookie) => {
    const ctx = contextWith({ cookie, host: 'a' });
    return () => sessionSecret(ctx, { config: readConfig({}) } as ApiDeps);
  }),
  ...casesOf(
    'Content-Type of a multipart form',
    head,
    { '`;a=";a=...`': (bytes) => filled(';a="', bytes) },
    (more) => {
      return () => parseMultipart(Buffer.from('--b--'), `multipart/form-data; boundary=b${more}`);
    },
  ),
  ...casesOf(
    'path, by the router',
    head,
    { '`/notifications///...`': (bytes) => filled('%41', bytes / 2) + filled('/', bytes / 2) },
    (path) => {
      const router = new Router({ sensitive: true });
      for (const { path } of endpoints) router.get(path.replaceAll(/\{(\w+)\}/g, ':$1'), () => undefined);
      for (const path of ['sites/:site/notifications/:id/redeliver', '*nowhere'])
        router.get(`/console/${path}`, () => undefined);
      return () => router.match(`/notifications/${path}`, 'GET');
    },
  ),
  ...casesOf('body, by its chunks', formAtMostBytes, { 'chunks of one byte': (bytes) => bytes }, (bytes) => {
    const req = new IncomingMessage(new Socket());
    for (let i = 0; i < bytes; i++) req.push('a');
    req.push(null);
    return () => readBytes(req, formAtMostBytes);
  }),
  ...casesOf(
    'multipart form',
    formAtMostBytes,
    {
      'one long value': (bytes) => `${partHead}\r\n${filled('x', bytes - 80)}`,
      'line ends': (bytes) => `${partHead}\r\n${filled('\r', bytes - 80)}`,
      'beginnings of a boundary': (bytes) => `${partHead}\r\n${filled('\r\n--', bytes - 80)}`,
      parts: (bytes) => filled('--b\r\n\r\n\r\n', bytes - 80),
      'headers of a part': (bytes) => `${partHead}${filled('a: b\r\n', bytes - 80)}\r\n`,
      '`filename="filename="...`': (bytes) =>
        `--b\r\ncontent-disposition: ${filled('filename="', bytes - 80)}\r\n`,
    },
    (text) => {
      const body = Buffer.from(`${text}\r\n--b--\r\n`);
      return () => parseMultipart(body, 'multipart/form-data; boundary=b');
    },
  ),
  ...casesOf<unknown>(
    'enrichment event',
    json,
    {
      'names that are not known': (bytes) =>
        Object.fromEntries(Array.from({ length: bytes / 12 }, (_, i) => [`k${i}`, 0])),
      segments: (bytes) => ({ ...known, segments: Array.from({ length: bytes / 4 }, () => 'a') }),
      'a long asset id': (bytes) => ({ ...known, platform_id: filled('\u{1f3ac}', bytes) }),
    },
    (raw) => () => readEnrichmentEvent(raw, ''),
  ),
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
  { prepare }: Pick<ParserCase, 'prepare'>,
  bytes: number,
  tries = 7,
): Promise<number> {
  let least = Number.POSITIVE_INFINITY;
  for (let tried = 0; tried < tries; tried++) {
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
