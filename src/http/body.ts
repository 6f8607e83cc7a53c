/** Reads and parses bodies: JSON, the two encodings of a form, and none. */
import { isUtf8 } from 'node:buffer';
import type { IncomingMessage } from 'node:http';
import type { Readable } from 'node:stream';
import { promisify } from 'node:util';
import { brotliDecompress, gunzip, inflate, inflateRaw, type ZlibOptions } from 'node:zlib';
import type { Context, Request } from 'koa';
import { koaBody } from 'koa-body';
import { ApiError, badParameter } from './apiError.js';
import { multipart, parseMultipart } from './multipart.js';
import { type Parameters, type Places, parseParameters, shown } from './query.js';

/** Anybody may send a form, before any limit: its size bounds what parsing costs (docs/bad-input.md). */
export const formAtMostBytes = 4 * 1024;
/** The encoding of a form that the description of the API names. */
export const urlencoded = 'application/x-www-form-urlencoded';

const readFormBytes = bytesReader(formAtMostBytes);
/** Percent-encoded twice, a URL of 2,048 bytes and a reason of 200 characters have more than 4 KiB. */
const readSessionsFormBytes = bytesReader(16 * 1024);

/**
 * Reads the fields of a form, trimmed; none if there is no body.
 * @param isOfSession true if the caller is known to have a session
 * @throws ApiError 400, 413, 415
 */
export async function readForm(req: IncomingMessage, isOfSession = false): Promise<Parameters> {
  const { 'content-type': contentType = '', 'content-encoding': encoding = '' } = req.headers;
  const type = mediaType(contentType);
  if (!contentType && !announcesBody(req)) return new Map();
  if (type !== urlencoded && type !== multipart)
    throw unsupported(`The content type must be ${urlencoded} or ${multipart}`);
  if (encoding) throw unsupported('A form must not have a Content-Encoding');
  const charset = requireKnownCharset(contentType);
  const bytes = await (isOfSession ? readSessionsFormBytes : readFormBytes)(req);
  if (bytes.length === 0) return new Map();
  const isLatin = charset === 'iso-8859-1' || charset === 'latin1';
  const text = isLatin ? bytes.toString() : decoded(bytes);
  if (/^content-transfer-encoding: *quoted-printable/im.test(text))
    throw badParameter('A part is quoted-printable: send it as it is, or as base64');
  const fields =
    type === multipart ? await parseMultipart(bytes, contentType) : parseParameters(requireForm(text));
  return new Map([...fields].map(([name, value]) => [name, value.trim()]));
}

/** Says whether the head of a request says that a body follows. */
const announcesBody = ({ headers }: IncomingMessage): boolean =>
  headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0;

/** Every form of another kind would lack its first field. */
function requireForm(text: string): string {
  const [, json, part] = /^\s*(?:([{[])|(--))/.exec(text) ?? [];
  if (json) throw badParameter(`The body is JSON: send its members as ${urlencoded}`);
  if (part) throw badParameter(`The body is ${multipart}: the content type must say so, with its boundary`);
  return text;
}

const unsupported = (message: string): ApiError => new ApiError('unsupported_media_type', message);

const mediaType = (contentType: string): string => contentType.split(';', 1)[0]?.trim().toLowerCase() ?? '';

/** Refuses other charsets. All values that are ever valid are ASCII, so each is read as UTF-8. @throws ApiError 415 */
export function requireKnownCharset(contentType: string): string | undefined {
  const named = charsetOf(contentType);
  if (named !== undefined && !charsets.includes(named))
    throw unsupported('The charset must be UTF-8, US-ASCII or ISO-8859-1');
  return named;
}

const charsetOf = (contentType: string): string | undefined =>
  /;\s*charset\s*=\s*"?([^\s;"]*)/i.exec(contentType)?.[1]?.toLowerCase();

/** Apache HttpClient names ISO-8859-1 unless it is told otherwise. */
const charsets = ['utf-8', 'utf8', 'us-ascii', 'ascii', 'iso-8859-1', 'latin1'];

/** Reads bodies of JSON, compressed or not; undefined if there is none. @throws ApiError 400, 413, 415 */
export function jsonReader(atMostBytes: number): (req: IncomingMessage) => Promise<unknown> {
  const read = bytesReader(atMostBytes);
  return async (req) => {
    const { 'content-type': contentType = '', 'content-encoding': named = 'identity' } = req.headers;
    if (!contentType && !announcesBody(req)) return undefined;
    if (mediaType(contentType) !== 'application/json')
      throw unsupported('The content type must be application/json');
    // US-ASCII is UTF-8.
    if (!/^(utf-?8|(us-)?ascii)$/.test(charsetOf(contentType) ?? 'utf-8'))
      throw unsupported('The charset of JSON is UTF-8');
    // RFC 9110, sections 5.6.1 and 8.4.1: names in any case, x-gzip is gzip, empty members of a list are none.
    const names = named.toLowerCase().match(/[^\s,]+/g) ?? ['identity'];
    const encoding = names.join().replace('x-gzip', 'gzip');
    if (encoding === 'identity') return parseJson(await read(req));
    const unpack = unpackers.get(encoding);
    if (unpack === undefined) throw unsupported('The Content-Encoding must be gzip, deflate or br');
    const packed = await read(req);
    const bytes = await unpack(packed, { maxOutputLength: atMostBytes }).catch(({ code }) => {
      if (code === 'ERR_BUFFER_TOO_LARGE') throw tooLong(atMostBytes);
      const how = code === 'Z_BUF_ERROR' ? 'breaks off' : 'is not';
      throw badParameter(`The Content-Encoding is ${named.trim()}, but the body ${how}`);
    });
    return parseJson(bytes);
  };
}

type Unpack = (packed: Buffer, options: ZlibOptions) => Promise<Buffer>;
const inZlib = promisify<Buffer, ZlibOptions, Buffer>(inflate);
const bare = promisify<Buffer, ZlibOptions, Buffer>(inflateRaw);
const unpackers = new Map<string, Unpack>([
  ['gzip', promisify<Buffer, ZlibOptions, Buffer>(gunzip)],
  // RFC 9110, section 8.4.1.2: some send it without the wrapping of zlib, whose first byte ends in 8 (RFC 1950, section 2.2).
  ['deflate', (packed, options) => (((packed[0] ?? 8) & 15) === 8 ? inZlib : bare)(packed, options)],
  ['br', promisify<Buffer, ZlibOptions, Buffer>(brotliDecompress)],
]);

/** Returns a function that reads a body with koa-body, whose errors may hold the body: only their status is used. @throws ApiError 400, 408, 413 */
function bytesReader(atMostBytes: number) {
  // koa-body returns text: in latin1 a character is a byte.
  const nothing = { json: false, urlencoded: false, multipart: false };
  const read = koaBody({ ...nothing, text: true, textLimit: atMostBytes, encoding: 'latin1' });
  return async (req: IncomingMessage): Promise<Buffer> => {
    // koa-body would unpack the body, and knows fewer encodings.
    delete req.headers['content-encoding'];
    if (req.destroyed) throw brokenOff();
    const request = {} as Request;
    // Called as for a text, so that koa-body does not check the content type again.
    const ctx = { method: 'POST', is: () => '*/*', req, request } as Context;
    const reading = read(ctx, async () => undefined).catch(({ status }: { status?: number }) => {
      req.unpipe();
      throw status === 413 ? tooLong(atMostBytes) : brokenOff();
    });
    await (req.complete ? reading : Promise.race([reading, lateness(req)]));
    return Buffer.from(typeof request.body === 'string' ? request.body : '', 'latin1');
  };
}

/** Returns a function that finds a caller found now once more, if a second has passed: while a body came or a turn, a token or session may have ended. */
export function findsAgain(find: () => Promise<unknown>): () => Promise<void> {
  const foundAt = performance.now();
  return async () => {
    if (performance.now() - foundAt > 1000) await find();
  };
}

/** Emitted for a request whose time is over while its body is read: whoever reads the body answers. */
export const lateEvent = 'late';

/** Rejects with ApiError 408 if the body of a request is late, saying how much of it has come. */
function lateness(req: IncomingMessage): Promise<never> {
  const begunMs = performance.now();
  let [bytes, lastMs] = [0, begunMs];
  const count = (chunk: Buffer) => {
    bytes += chunk.length;
    lastMs = performance.now();
  };
  // A listener by itself would begin to read a body that the head refuses.
  req.once('resume', () => req.on('data', count));
  return new Promise((_, reject) =>
    req.once(lateEvent, () => {
      req.removeAllListeners('data');
      const { 'content-length': length } = req.headers;
      const came = length
        ? `${bytes} of ${length} bytes of the body came`
        : `${bytes} bytes of the body came, without its end`;
      const nowMs = performance.now();
      const hint =
        nowMs - lastMs > (nowMs - begunMs) / 2
          ? 'the last long ago: is the Content-Length too high?'
          : 'slowly: send smaller batches, or gzip';
      reject(new ApiError('request_timeout', `The request took too long: ${came}, ${hint}`));
    }),
  );
}

/**
 * Decodes a body without its byte order mark. RFC 8259, section 8.1: only UTF-8. Invalid bytes would otherwise all become the same
 * replacement character, and different names would become equal. @throws ApiError 400
 */
function decoded(bytes: Buffer): string {
  if (bytes[0] === 0x1f && bytes[1] === 0x8b)
    throw badParameter('The body is gzip, but there is no Content-Encoding that says so');
  if (bytes.includes(0)) throw badParameter('The body has bytes 0, as UTF-16 and files have: send UTF-8');
  const text = bytes.toString();
  if (!isUtf8(bytes)) {
    const same = Buffer.from(text);
    const at = bytes.findIndex((byte, i) => byte !== same[i]);
    throw badParameter(`The body is not UTF-8: see byte ${at < 0 ? bytes.length : at + 1}`);
  }
  return text.charCodeAt(0) === 0xfeff ? text.slice(1) : text;
}

/** Parses JSON; undefined if there is none. @throws ApiError 400 */
function parseJson(bytes: Buffer): unknown {
  const text = decoded(bytes);
  if (text === '') return undefined;
  const padded = text.padEnd(21);
  let value: unknown;
  try {
    value = JSON.parse(padded);
  } catch (err) {
    const { at, why } = locateError(padded, (err as Error).message);
    const lines = text.slice(0, at).split('\n');
    const column = (lines.at(-1)?.length ?? 0) + 1;
    throw badParameter(`The body is not JSON: ${why}see line ${lines.length}, column ${column}`);
  }
  requireDistinctNames(text);
  return value;
}

/** JSON.parse takes the last of repeated members (RFC 8259, section 4). @param json known to be JSON @throws ApiError 400 */
function requireDistinctNames(json: string): void {
  const objects: Set<string>[] = [];
  for (const [token, colon] of json.matchAll(/"(?:[^"\\]|\\.)*"(\s*:)?|[{}]/g)) {
    if (token === '{') objects.push(new Set());
    else if (token === '}') objects.pop();
    else if (colon !== undefined) {
      const name: string = JSON.parse(token.slice(0, -colon.length));
      if (objects.at(-1)?.has(name)) throw badParameter(`The member ${shown(name)} is repeated`);
      objects.at(-1)?.add(name);
    }
  }
}

/**
 * Returns where a text stops being JSON. V8's message is not passed on: it may quote the text. Where it names no position, it quotes
 * ten characters before the mistake and ten from there on, but the whole of a text that has less than 21.
 */
function locateError(text: string, message: string): { at: number; why: string } {
  const end = text.trimEnd().length;
  const [, position] = /at position (\d+)/.exec(message) ?? [];
  if (position !== undefined) return { at: Math.min(Number(position), end), why: '' };
  if (message.includes('end of JSON')) return { at: end, why: 'it ends too early, ' };
  const [, before, quoted = ''] =
    /^Unexpected token .*?, (\.\.\.)?"(.*)"(?:\.\.\.)? is not/s.exec(message) ?? [];
  return { at: Math.max(0, before ? text.indexOf(quoted) + 10 : quoted.length - 10), why: '' };
}

/**
 * Refuses a body on a call that takes none: its caller meant it. Laravel itself sends `[]`, .NET `null`, other libraries `{}`.
 * @param places where the call's parameters belong
 * @throws ApiError 400
 */
export async function requireNoBody(req: IncomingMessage, places: Places): Promise<void> {
  if (!announcesBody(req)) return;
  const text = await readNoBody(req).then(String, () => 'too long');
  if (/^\s*(\{\s*\}|\[\s*\]|null)?\s*$/.test(text)) return;
  const parts = [...places].map(([name, place]) => `${name} ${place}`);
  throw badParameter(`This call takes no body${parts.length > 0 ? `: ${parts.join(', ')}` : ''}`);
}

const readNoBody = bytesReader(64);

const tooLong = (atMostBytes: number): ApiError =>
  new ApiError('body_too_long', `The body is longer than ${atMostBytes.toLocaleString('en')} bytes`);
/** The caller has hung up. */
const brokenOff = (): ApiError => badParameter('The body broke off');

/** Of a body that is too long or too slow this much is read on and dropped, with pauses of at most `pauseMs`. */
const dropped = { atMostBytes: 16 * 1024 * 1024, pauseMs: 2_000, atMostMs: 30_000 };

/**
 * Yields an answer, and ends once the rest of the request's body was dropped: many callers read no answer before they have sent all,
 * and would see a broken connection instead.
 */
export async function* whileDropping(req: IncomingMessage, answer: string): AsyncGenerator<string> {
  yield answer;
  await dropRest(req);
}

/** Reads on and drops what it reads, for as long and as much as `dropped` has it. Resolves at the end of that. */
export async function dropRest(from: Readable, atMostMs = dropped.atMostMs): Promise<void> {
  const timers: NodeJS.Timeout[] = [];
  await new Promise<void>((resolve) => {
    const timer = setTimeout(resolve, dropped.pauseMs);
    timers.push(timer, setTimeout(resolve, atMostMs));
    let bytes = 0;
    from.on('data', (chunk: Buffer) => {
      timer.refresh();
      bytes += chunk.length;
      if (bytes > dropped.atMostBytes) resolve();
    });
    for (const event of ['end', 'close']) from.once(event, resolve);
    from.resume();
  });
  for (const timer of timers) clearTimeout(timer);
}
