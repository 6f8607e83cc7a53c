/** Reads and parses bodies: JSON, the two encodings of a form, and none. */
import { isUtf8 } from 'node:buffer';
import type { IncomingMessage } from 'node:http';
import type { Context, Request } from 'koa';
import { koaBody } from 'koa-body';
import { Response } from 'undici';
import { ApiError, badParameter } from './apiError.js';
import { collectParameters, type Parameters, type Places, parseParameters, shown } from './query.js';

/** Anybody may send a form, before any limit: its size bounds what parsing costs (docs/bad-input.md). */
export const formAtMostBytes = 4 * 1024;
/** The encoding of a form that the description of the API names. */
export const urlencoded = 'application/x-www-form-urlencoded';
const multipart = 'multipart/form-data';

const readFormBytes = bytesReader(formAtMostBytes);

/** Reads the fields of a form, trimmed. @throws ApiError 400, 413, 415 */
export async function readForm(req: IncomingMessage): Promise<Parameters> {
  const { 'content-type': contentType = '', 'content-encoding': encoding = '' } = req.headers;
  const type = mediaType(contentType);
  if (type !== urlencoded && type !== multipart)
    throw unsupported(`The content type must be ${urlencoded} or ${multipart}`);
  if (encoding) throw unsupported('A form must not have a Content-Encoding');
  const charset = requireKnownCharset(contentType);
  const bytes = await readFormBytes(req);
  const isLatin = charset === 'iso-8859-1' || charset === 'latin1';
  const text = isLatin ? bytes.toString() : decoded(bytes);
  if (/^content-transfer-encoding: *quoted-printable/im.test(text))
    throw badParameter('A part is quoted-printable: send it as it is, or as base64');
  const fields =
    type === multipart ? await parseMultipart(bytes, contentType) : parseParameters(requireForm(text));
  return new Map([...fields].map(([name, value]) => [name, value.trim()]));
}

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
  if (named !== undefined && !charsets.includes(named)) {
    throw unsupported('The charset must be UTF-8, US-ASCII or ISO-8859-1');
  }
  return named;
}

const charsetOf = (contentType: string): string | undefined =>
  /;\s*charset\s*=\s*"?([^\s;"]*)/i.exec(contentType)?.[1]?.toLowerCase();

/** Apache HttpClient names ISO-8859-1 unless it is told otherwise. */
const charsets = ['utf-8', 'utf8', 'us-ascii', 'ascii', 'iso-8859-1', 'latin1'];

/**
 * Parses with undici: its time is linear, and it accepts what 25 programs send (test/api/recorded).
 * @throws ApiError 400
 */
export async function parseMultipart(bytes: Buffer, contentType: string): Promise<Parameters> {
  const body = new Response(bytes, { headers: { 'Content-Type': contentType } });
  const parts = await body.formData().catch(() => {
    throw badParameter(
      /;\s*boundary\s*=/i.test(contentType)
        ? `The body is not ${multipart} with the boundary that the content type names`
        : 'The content type has no boundary: let the HTTP library set it',
    );
  });
  return collectParameters(
    [...parts].map(([name, value]) => {
      if (typeof value !== 'string') throw badParameter('A file is not accepted here');
      return [name, value];
    }),
  );
}

/** Reads bodies of JSON, compressed or not; undefined if there is none. @throws ApiError 400, 413, 415 */
export function jsonReader(atMostBytes: number): (req: IncomingMessage) => Promise<unknown> {
  const read = bytesReader(atMostBytes);
  return async (req) => {
    const { 'content-type': contentType = '', 'content-encoding': named = 'identity' } = req.headers;
    if (mediaType(contentType) !== 'application/json') {
      throw unsupported('The content type must be application/json');
    }
    if (!/^utf-?8$/.test(charsetOf(contentType) ?? 'utf-8'))
      throw unsupported('The charset of JSON is UTF-8');
    // RFC 9110, sections 5.6.1 and 8.4.1: names in any case, x-gzip is gzip, empty members of a list are none. koa-body knows only these.
    const names = named.toLowerCase().match(/[^\s,]+/g) ?? ['identity'];
    const encoding = names.join().replace('x-gzip', 'gzip');
    if (!encodings.includes(encoding)) throw unsupported('The Content-Encoding must be gzip, deflate or br');
    return parseJson(await read(req, encoding));
  };
}

const encodings = ['identity', 'gzip', 'deflate', 'br'];

/** Returns a function that reads a body with koa-body, whose errors may hold the body: only their status is used. @throws ApiError 400, 413 */
function bytesReader(atMostBytes: number) {
  // koa-body returns text: in latin1 a character is a byte.
  const nothing = { json: false, urlencoded: false, multipart: false };
  const read = koaBody({ ...nothing, text: true, textLimit: atMostBytes, encoding: 'latin1' });
  return async (req: IncomingMessage, encoding = 'identity'): Promise<Buffer> => {
    const named = req.headers['content-encoding'] ?? encoding;
    req.headers['content-encoding'] = encoding;
    if (req.destroyed) throw brokenOff();
    const request = {} as Request;
    // Called as for a text, so that koa-body does not check the content type again.
    const ctx = { method: 'POST', is: () => '*/*', req, request } as Context;
    await read(ctx, async () => undefined).catch(({ status }: { status?: number }) => {
      req.unpipe();
      if (status === 413) throw tooLong(atMostBytes);
      if (encoding === 'identity' || (req.destroyed && !req.complete)) throw brokenOff();
      throw badParameter(`The Content-Encoding is ${named.trim()}, but the body is not, or breaks off`);
    });
    return Buffer.from(typeof request.body === 'string' ? request.body : '', 'latin1');
  };
}

/**
 * Decodes a body without its byte order mark. RFC 8259, section 8.1: only UTF-8. Invalid bytes would otherwise all become the same
 * replacement character, and different names would become equal. @throws ApiError 400
 */
function decoded(bytes: Buffer): string {
  if (bytes[0] === 0x1f && bytes[1] === 0x8b) {
    throw badParameter('The body is gzip, but there is no Content-Encoding that says so');
  }
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
  const { 'content-length': length = '0', 'transfer-encoding': coding } = req.headers;
  if (coding === undefined && Number(length) === 0) return;
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

/** Of a body that is too long this much is read on and dropped, with pauses of at most `pauseMs`. */
const dropped = { atMostBytes: 16 * 1024 * 1024, pauseMs: 2_000 };

/**
 * Yields an answer, and ends once the rest of the request's body was dropped: many callers read no answer before they have sent all,
 * and would see a broken connection instead.
 */
export async function* whileDropping(req: IncomingMessage, answer: string): AsyncGenerator<string> {
  yield answer;
  await new Promise<void>((resolve) => {
    const timer = setTimeout(resolve, dropped.pauseMs);
    let bytes = 0;
    req.on('data', (chunk: Buffer) => {
      timer.refresh();
      bytes += chunk.length;
      if (bytes > dropped.atMostBytes) resolve();
    });
    for (const event of ['end', 'close']) req.once(event, resolve);
    req.resume();
  });
}
