import type { IncomingMessage } from 'node:http';
import { Response } from 'undici';
import { ApiError, badParameter, unreadableBody } from '../apiError.js';
import type { Step } from '../step.js';
import { pairsOf, parametersAtMost, shown, tooManyParameters } from './query.js';

/** Anybody may send a form, before any limit: its size bounds what parsing costs (docs/bad-input.md). */
export const formAtMostBytes = 4 * 1024;
const urlencoded = 'application/x-www-form-urlencoded';
const multipart = 'multipart/form-data';
/** The encodings of a form, as the description of the API names them. */
export const formTypes = [urlencoded, multipart];

/** Reads the fields of the body, in one of the two encodings of a form, as state.form. @throws ApiError 400, 413, 415 */
export const readForm: Step<{ form: Form }> = async (ctx, next) => {
  const { 'content-type': contentType = '', 'content-encoding': encoding } = ctx.req.headers;
  const type = contentType.split(';', 1)[0]?.trim().toLowerCase();
  if (type !== urlencoded && type !== multipart) {
    throw new ApiError('unsupported_media_type', `The content type must be ${urlencoded} or ${multipart}`);
  }
  if (encoding !== undefined) {
    throw new ApiError('unsupported_media_type', 'A form must not have a Content-Encoding');
  }
  const charset = charsetOf(contentType);
  const bytes = await readPlain(ctx.req, formAtMostBytes);
  ctx.state.form =
    type === multipart ? await parseMultipart(bytes, contentType) : parseUrlencoded(bytes, charset);
  await next();
};

/** @throws ApiError 400 */
export function parseUrlencoded(bytes: Buffer, charset: Charset): Form {
  const pairs = pairsOf(bytes.toString('latin1'));
  return formOf(pairs.map(([name, value]) => [formDecoded(name, charset), formDecoded(value, charset)]));
}

/**
 * Parses with undici, whose time is linear, and which takes what 25 programs send (test/api/recorded). It reads every
 * value as UTF-8; of credentials and scopes only ASCII is ever valid.
 * @throws ApiError 400
 */
export async function parseMultipart(bytes: Buffer, contentType: string): Promise<Form> {
  const body = new Response(bytes, { headers: { 'Content-Type': contentType } });
  const parts = await body.formData().catch(() => {
    throw unreadableBody();
  });
  return formOf(
    [...parts].map(([name, value]): [string, string] => {
      if (typeof value !== 'string') throw badParameter('A file is not accepted here');
      return [name, value];
    }),
  );
}

/** US-ASCII is a part of both. */
export type Charset = 'utf-8' | 'iso-8859-1';

/** Returns the charset that a content type names; UTF-8 if it names none. @throws ApiError 415 */
export function charsetOf(contentType: string, otherwise: Charset = 'utf-8'): Charset {
  const named = /;\s*charset\s*=\s*"?([^\s;"]*)/i.exec(contentType)?.[1]?.toLowerCase();
  if (named === undefined) return otherwise;
  const known = charsets.get(named);
  if (known === undefined) {
    throw new ApiError('unsupported_media_type', 'The charset must be UTF-8, US-ASCII or ISO-8859-1');
  }
  return known;
}

const charsets = new Map<string, Charset>([
  ['utf-8', 'utf-8'],
  ['utf8', 'utf-8'],
  ['us-ascii', 'utf-8'],
  ['ascii', 'utf-8'],
  // The default of Apache HttpClient.
  ['iso-8859-1', 'iso-8859-1'],
  ['latin1', 'iso-8859-1'],
]);

/** @throws ApiError 400 for bytes that are not valid in the charset */
export function textOf(bytes: Uint8Array, charset: Charset): string {
  try {
    return charset === 'utf-8' ? utf8.decode(bytes) : Buffer.from(bytes).toString('latin1');
  } catch {
    throw unreadableBody();
  }
}

/**
 * Decodes a name or value of an urlencoded form.
 * @param encoded its bytes, each as the character with that code
 * @throws ApiError 400
 */
export function formDecoded(encoded: string, charset: Charset): string {
  if (plain.test(encoded)) return encoded;
  const withSpaces = encoded.replaceAll('+', ' ');
  if (brokenPercent.test(withSpaces)) throw unreadableBody();
  const bytes = withSpaces.replaceAll(/%(..)/g, (_, hex: string) =>
    String.fromCharCode(Number.parseInt(hex, 16)),
  );
  return textOf(Buffer.from(bytes, 'latin1'), charset);
}

const plain = /^[A-Za-z0-9._~:/-]*$/;
const brokenPercent = /%(?![0-9a-f]{2})/i;
const utf8 = new TextDecoder('utf-8', { fatal: true });

/** The fields of a form by name, trimmed, each given once. */
export type Form = ReadonlyMap<string, string>;

/** Collects fields; none may be given twice, not even an ignored one (RFC 6749, section 3.2). @throws ApiError 400 */
export function formOf(fields: Iterable<readonly [name: string, value: string]>): Form {
  const form = new Map<string, string>();
  for (const [name, value] of fields) {
    if (form.has(name)) throw badParameter(`The parameter ${shown(name)} is repeated`);
    if (form.size === parametersAtMost) throw tooManyParameters();
    form.set(name, value.trim());
  }
  return form;
}

/**
 * Reads the bytes of an uncompressed body: the form of a token call, the most frequent and cheapest call. With koa-body
 * reading takes 3 to 9 % more of the service's CPU, and parsing 12 to 26 % (docs/dependencies.md has the figures).
 * @throws ApiError 400, 413
 */
export function readPlain(req: IncomingMessage, atMostBytes: number): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    let held: Buffer = Buffer.alloc(0);
    let bytes = 0;
    let isRead = false;
    const refuse = (error: ApiError) => {
      req.off('data', take);
      req.pause();
      reject(error);
    };
    const take = (chunk: Buffer) => {
      const before = bytes;
      bytes += chunk.length;
      if (bytes > atMostBytes) return refuse(tooLong());
      held = before === 0 ? chunk : appended(held, before, chunk);
    };
    const end = () => {
      isRead = true;
      resolve(held.subarray(0, bytes));
    };
    // Every request is closed, also one that was read; removing listeners costs more than this check.
    const close = () => {
      if (!isRead) refuse(unreadableBody());
    };
    if (Number(req.headers['content-length']) > atMostBytes) refuse(tooLong());
    else if (req.destroyed) refuse(unreadableBody());
    else req.on('data', take).on('end', end).on('close', close);
  });
}

const tooLong = (): ApiError => new ApiError('body_too_long', 'The body is too long');

/** Not a list of pieces: a body in chunks of one byte would need a hundred times its size until its end. */
function appended(held: Buffer, heldBytes: number, chunk: Buffer): Buffer {
  const bytes = heldBytes + chunk.length;
  let whole = held;
  if (bytes > held.length) {
    whole = Buffer.allocUnsafeSlow(2 * bytes);
    held.copy(whole, 0, 0, heldBytes);
  }
  chunk.copy(whole, heldBytes);
  return whole;
}
