/** A request as a connection sends it. */
import { validateHeaderName, validateHeaderValue } from 'node:http';
import type { Readable } from 'node:stream';
import { AttemptFailed } from './failures.js';
import type { Destination } from './opening.js';

export interface Request {
  /** Path and query. */
  path: string;
  headers: Readonly<Record<string, string>>;
  /** Sent whole or in pieces: a new stream is made each time it is sent, and `content-length` is in the headers. */
  body: string | (() => Readable);
  /** Asked just before the first byte. If it says no, nothing is sent, and the attempt fails with `ours: stalled`. */
  mayBegin?: () => boolean;
}

/** Writes the head of a request. @throws AttemptFailed for a header that would split the request */
export function headOf({ path, headers, body }: Request, { name }: Destination): string {
  let head = `POST ${path} HTTP/1.1\r\nHost: ${name.slice(name.indexOf('//') + 2)}\r\nConnection: keep-alive\r\n`;
  try {
    for (const [name, value] of Object.entries(headers)) {
      validateHeaderName(name);
      validateHeaderValue(name, value);
      head += `${asParsersKnow(name)}: ${value}\r\n`;
    }
  } catch {
    throw new AttemptFailed({ error: 'protocol', detail: 'request_invalid' });
  }
  if (typeof body === 'string') head += `Content-Length: ${Buffer.byteLength(body)}\r\n`;
  return `${head}\r\n`;
}

/** Some parsers know the names without which they cannot read a request in this case only. */
const asParsersKnow = (name: string) =>
  /^content-/i.test(name) ? name.replace(/\b[a-z]/g, (a) => a.toUpperCase()) : name;
