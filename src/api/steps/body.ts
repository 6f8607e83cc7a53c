/** Reads and parses bodies: JSON, and the two encodings of a form. */
import { isUtf8 } from 'node:buffer';
import type { IncomingMessage } from 'node:http';
import type { Context, Request } from 'koa';
import { koaBody } from 'koa-body';
import { Response } from 'undici';
import type { z } from 'zod';
import { ApiError, badParameter } from '../apiError.js';
import { collectParameters, type Parameters, parseParameters } from './query.js';

/** Anybody may send a form, before any limit: its size bounds what parsing costs (docs/bad-input.md). */
export const formAtMostBytes = 4 * 1024;
const urlencoded = 'application/x-www-form-urlencoded';
const multipart = 'multipart/form-data';
/** The encodings of a form, as the description of the API names them. */
export const formTypes = [urlencoded, multipart];

/** Reads the fields of a form, trimmed. @throws ApiError 400, 413, 415 */
export async function readForm(req: IncomingMessage): Promise<Parameters> {
  const { 'content-type': contentType = '', 'content-encoding': encoding } = req.headers;
  const type = mediaType(contentType);
  if (!formTypes.includes(type)) throw unsupported(`The content type must be ${urlencoded} or ${multipart}`);
  if (encoding !== undefined) throw unsupported('A form must not have a Content-Encoding');
  requireKnownCharset(contentType);
  const bytes = await readBytes(req, formAtMostBytes);
  const fields =
    type === multipart ? await parseMultipart(bytes, contentType) : parseParameters(bytes.toString());
  return new Map([...fields].map(([name, value]) => [name, value.trim()]));
}

const unsupported = (message: string): ApiError => new ApiError('unsupported_media_type', message);

const mediaType = (contentType: string): string => contentType.split(';', 1)[0]?.trim().toLowerCase() ?? '';

/** Refuses other charsets. All values that are ever valid are ASCII, so each is read as UTF-8. @throws ApiError 415 */
export function requireKnownCharset(contentType: string): void {
  const named = /;\s*charset\s*=\s*"?([^\s;"]*)/i.exec(contentType)?.[1]?.toLowerCase();
  if (named !== undefined && !charsets.includes(named)) {
    throw unsupported('The charset must be UTF-8, US-ASCII or ISO-8859-1');
  }
}

/** Apache HttpClient names ISO-8859-1 unless it is told otherwise. */
const charsets = ['utf-8', 'utf8', 'us-ascii', 'ascii', 'iso-8859-1', 'latin1'];

/**
 * Parses with undici: its time is linear, and it accepts what 25 programs send (test/api/recorded).
 * @throws ApiError 400
 */
export async function parseMultipart(bytes: Buffer, contentType: string): Promise<Parameters> {
  const body = new Response(bytes, { headers: { 'Content-Type': contentType } });
  const parts = await body.formData().catch(() => {
    throw unreadableBody();
  });
  return collectParameters(
    [...parts].map(([name, value]) => {
      if (typeof value !== 'string') throw badParameter('A file is not accepted here');
      return [name, value];
    }),
  );
}

/**
 * Reads bodies of JSON with koa-body, compressed or not; undefined if there is none. Its errors hold the body: only their status is used.
 * @throws ApiError 400, 413, 415
 */
export function jsonReader(atMostBytes: number): (req: IncomingMessage) => Promise<unknown> {
  // koa-body returns text: in latin1 a character is a byte.
  const nothing = { json: false, urlencoded: false, multipart: false };
  const read = koaBody({ ...nothing, text: true, textLimit: atMostBytes, encoding: 'latin1' });
  return async (req) => {
    if (mediaType(req.headers['content-type'] ?? '') !== 'application/json') {
      throw unsupported('The content type must be application/json');
    }
    // The caller has hung up.
    if (!req.readable) throw unreadableBody();
    const request = {} as Request;
    // Called as for a text, so that koa-body does not check the content type again.
    const ctx = { method: 'POST', is: () => '*/*', req, request } as Context;
    await read(ctx, async () => undefined).catch(({ status }: { status?: number }) => {
      if (status === 413) throw tooLong();
      throw status === 415 ? unsupported('The encoding of the body is not supported') : unreadableBody();
    });
    return parseJson(Buffer.from(typeof request.body === 'string' ? request.body : '', 'latin1'));
  };
}

/**
 * Parses JSON; undefined if there is none. RFC 8259, section 8.1: only UTF-8. Invalid bytes would otherwise all become the
 * same replacement character, and different names would become equal. @throws ApiError 400
 */
function parseJson(bytes: Buffer): unknown {
  if (!isUtf8(bytes)) throw unreadableBody();
  if (bytes.length === 0) return undefined;
  const text = bytes.toString();
  try {
    return JSON.parse(text);
  } catch (err) {
    throw badParameter(`The body is not JSON${locateError(text, (err as Error).message)}`);
  }
}

/** Returns where a text stops being JSON. V8's message itself may quote the text, so it is not passed on. */
function locateError(text: string, message: string): string {
  const [, position] = /at position (\d+)/.exec(message) ?? [];
  // The text around the mistake, from ten characters before it.
  const [, around] = /\.\.\."(.*)"/s.exec(message) ?? [];
  const at = position ?? (around === undefined ? undefined : text.indexOf(around) + 10);
  if (at === undefined) return message.includes('end of JSON') ? ': it ends too early' : '';
  const lines = text.slice(0, Number(at)).split('\n');
  return `: see line ${lines.length}, column ${(lines.at(-1)?.length ?? 0) + 1}`;
}

/** Returns a caller's input that fits its schema; an absent one counts as `{}`. @throws ApiError 400 naming every problem */
export function checked<T>(schema: z.ZodType<T>, input: unknown): T {
  const result = checkInput(schema, input ?? {});
  if ('problem' in result) throw badParameter(result.problem);
  return result.data;
}

/**
 * Checks a caller's JSON.
 * @param at the path of the input in the body, such as `events[3]`; empty: the input is the body
 * @returns the data, or the problems in words, each `<path>: <what must change>`
 */
export function checkInput<T>(
  schema: z.ZodType<T>,
  input: unknown,
  at = '',
): { data: T } | { problem: string } {
  const parsed = schema.safeParse(input, inOurWords);
  if (parsed.success) return { data: parsed.data };
  const problems = parsed.error.issues.map(({ path, message }) => `${formatPath(at, path)}: ${message}`);
  return { problem: shortened(problems.join('; ')) };
}

/** Replaces the library's own messages, which name its types and operators. A schema's own messages stay. */
const inOurWords = {
  error: (issue: z.core.$ZodRawIssue): string => {
    switch (issue.code) {
      case 'invalid_type':
        return issue.input === undefined
          ? 'is missing'
          : `must be ${types[issue.expected] ?? 'of another type'}`;
      case 'unrecognized_keys':
        return `the member ${issue.keys.map((key) => `"${key}"`).join(', ')} is unknown`;
      case 'invalid_value':
        return `must be ${issue.values.join(' or ')}`;
      case 'too_small':
        return 'must not be empty';
      case 'too_big':
        return `must have at most ${issue.maximum} ${issue.origin === 'string' ? 'characters' : 'items'}`;
      default:
        return 'is not valid';
    }
  },
};

const types: Record<string, string> = {
  string: 'a string',
  boolean: 'true or false',
  array: 'a list',
  object: 'an object',
  record: 'an object',
};

function formatPath(at: string, path: readonly PropertyKey[]): string {
  let text = at;
  for (const part of path) {
    text += typeof part === 'number' ? `[${part}]` : `${text === '' ? '' : '.'}${String(part)}`;
  }
  return text === '' ? 'body' : text;
}

const atMost = 300;

/** Shortens a message that contains a stranger's text, such as the name of a field. */
function shortened(message: string): string {
  return message.length > atMost ? `${message.slice(0, atMost).toWellFormed()}…` : message;
}

/**
 * Reads a body as it is sent, into a text of one character for each byte: of a body in chunks of one byte a list of buffers
 * would need a hundred times its size. With koa-body reading a form takes 3 to 9 % more of the service's CPU
 * (docs/dependencies.md has the figures).
 * @throws ApiError 400, 413
 */
function readBytes(req: IncomingMessage, atMostBytes: number): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    let text = '';
    const refuse = (error: ApiError) => {
      req.off('data', take);
      req.pause();
      reject(error);
    };
    const take = (chunk: Buffer) => {
      text += chunk.toString('latin1');
      if (text.length > atMostBytes) refuse(tooLong());
    };
    if (Number(req.headers['content-length']) > atMostBytes) return refuse(tooLong());
    if (req.destroyed) return refuse(unreadableBody());
    req.on('data', take);
    req.on('end', () => resolve(Buffer.from(text, 'latin1')));
    // Every request is closed, even one that was read; removing listeners costs more than this check.
    req.on('close', () => req.readableEnded || refuse(unreadableBody()));
  });
}

const tooLong = (): ApiError => new ApiError('body_too_long', 'The body is too long');
const unreadableBody = (): ApiError => badParameter('The body cannot be read');
