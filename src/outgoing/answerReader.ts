import type { DetailOf } from './details.js';
import { AttemptFailed } from './failures.js';

/** How much of a body is kept, and the most that is kept of it for the publisher to read, as JSON. */
export const excerptBytes = 1_024;

/** The most bytes of 1xx answers, status line, headers, trailers and sizes of chunks: four times what common clients take. */
const maxHeadBytes = 64 * 1024;
/** A script under PHP's or Python's own server may call its answer HTTP/2 or HTTP/2.0: it is one of HTTP/1 all the same. */
const statusLine = /^HTTP\/(?:1\.\d|2(?:\.0)?) +([1-9]\d\d)(?!\S)/;
const begins = 'HTTP/';

/**
 * Reads the answer to one request. Its status line is what counts: whatever is wrong with the rest (a folded or broken header,
 * contradictory lengths, a line without CR, bytes after the end) only ends the connection. Only an answer in
 * which everything is as RFC 9112 has it lets the connection be used again.
 */
export class AnswerReader {
  /** A byte of this answer has come. */
  hasBegun = false;
  /** The connection was there before the request, or its TLS session. */
  isKept = false;
  /** The connection had a request before. */
  isReused = false;
  /** Time that the server says it keeps the connection (`Keep-Alive`). */
  keptMs = Number.POSITIVE_INFINITY;
  /** 0 until the status line has come, of the answer itself and not of a 1xx before it. */
  status = 0;
  /** The headers have ended, or are not read any further. */
  hasHeaders = false;
  bodyBytes = 0;
  /** The body, at least its first 1 KiB. */
  excerpt = Buffer.alloc(0);
  /** Nothing more is read. */
  isOver = false;
  /** What came last, and how much of it is read. */
  #bytes: Buffer = Buffer.alloc(0);
  #at = 0;
  /** The beginning of a line whose end has not come. */
  #line = '';
  #headBytes = 0;
  /** The value of the last may go on in the next line. */
  #headers: { name: string; value: string }[] = [];
  #isRegular = true;
  #isPersistent = true;
  /** Goes on with each `read`, and yields where it needs more. */
  readonly #reading = this.#readAnswer();

  /** The answer was read whole and nothing came after it, so that another request may follow. */
  get isReusable(): boolean {
    return this.isOver && this.#isRegular && this.#isPersistent;
  }

  /** Reads what has come. @throws AttemptFailed if it is no answer in HTTP/1 */
  read(bytes: Buffer): void {
    this.#bytes = bytes;
    this.#at = 0;
    try {
      this.isOver = this.#reading.next().done === true;
    } catch (error) {
      if (this.status === 0) throw error;
      this.#stop();
    }
    if (this.isOver && this.#at < this.#bytes.length) this.#isRegular = false;
  }

  /** The connection has ended. @throws AttemptFailed if there is no status */
  end(): void {
    if (this.status === 0)
      throw broken(this.#line === '' ? 'closed_without_answer' : 'closed_in_status_line');
    this.#stop();
  }

  #stop(): void {
    this.#isRegular = false;
    this.hasHeaders = true;
    this.isOver = true;
  }

  /** @throws AttemptFailed where it cannot go on */
  *#readAnswer(): Generator<undefined, void> {
    while (this.status === 0) {
      const status = yield* this.#readStatus();
      if (status >= 200) this.status = status;
      this.#headers = [];
      for (let line = yield* this.#readLine(); line !== ''; line = yield* this.#readLine())
        this.#takeHeader(line);
    }
    this.hasHeaders = true;
    const connection = this.valuesOf('connection').join(', ');
    if (/\bclose\b/i.test(connection)) this.#isPersistent = false;
    else if (/\bkeep-alive\b/i.test(connection)) this.#isPersistent = true;
    const kept = /\btimeout *= *(\d+)/i.exec(this.valuesOf('keep-alive').join(', '))?.[1];
    if (kept !== undefined) this.keptMs = Number(kept) * 1000;
    const [length, ...lengths] = this.valuesOf('content-length');
    const codings = this.valuesOf('transfer-encoding');
    if (lengths.length > 0) this.#isRegular = false;
    if (this.status === 204 || this.status === 304) {
      // Some servers send the body, or the end of a chunked one, all the same and later.
      if (codings.length > 0 || (length ?? '0') !== '0') this.#isRegular = false;
    } else if (codings.length > 0) {
      const coding = codings.join(', ');
      if (length !== undefined || !/^chunked$/i.test(coding)) this.#isRegular = false;
      yield* /chunked$/i.test(coding) ? this.#readChunks() : this.#readBody(Infinity);
    } else yield* this.#readBody(/^\d{1,15}$/.test(length ?? '') ? Number(length) : Infinity);
  }

  *#readStatus(): Generator<undefined, number> {
    let line = yield* this.#readLine(true);
    // Some servers send a CRLF more after a body.
    for (; line === ''; line = yield* this.#readLine(true)) this.#isRegular = false;
    const status = Number(statusLine.exec(line)?.[1]);
    if (Number.isNaN(status)) throw broken('not_http');
    if (status === 101) throw broken('switching_protocols');
    // RFC 9110, section 15.5.9: some load balancers say so before they close a connection that rests.
    if (status === 408 && this.isKept) {
      this.hasBegun = false;
      throw broken('closed_without_answer');
    }
    this.#isPersistent = !line.startsWith('HTTP/1.0');
    return status;
  }

  /** Says as early as possible that this is not HTTP/1: a server of another protocol may wait for more of the request. */
  #checkBeginning(): void {
    const beginning = this.#line.slice(0, begins.length).replace(/\r?\n?$/, '');
    if (beginning === '') return;
    if (!begins.startsWith(beginning)) throw broken(otherProtocol(this.#line));
    this.hasBegun = true;
  }

  #takeHeader(line: string): void {
    if (!regularHeader.test(line)) this.#isRegular = false;
    const [, name = '', value = line] = /^([^:]*):(.*)$/s.exec(line) ?? [];
    const last = this.#headers.at(-1);
    if (!/^[ \t]/.test(line)) this.#headers.push({ name: name.trim().toLowerCase(), value: value.trim() });
    else if (last !== undefined) last.value += ` ${line.trim()}`;
  }

  /** @param name in lower case */
  valuesOf(name: string): string[] {
    return this.#headers.filter((header) => header.name === name).map(({ value }) => value.trim());
  }

  *#readChunks(): Generator<undefined, void> {
    for (;;) {
      const line = yield* this.#readLine();
      if (!/^[\da-f]{1,12} *(;.*)?$/i.test(line)) throw broken('not_http');
      const size = Number.parseInt(line, 16);
      if (size === 0) break;
      yield* this.#readBody(size);
      if ((yield* this.#readLine()) !== '') throw broken('not_http');
    }
    while ((yield* this.#readLine()) !== '');
  }

  *#readBody(size: number): Generator<undefined, void> {
    for (const end = this.bodyBytes + size; this.bodyBytes < end; ) {
      const part = this.#bytes.subarray(this.#at, this.#at + end - this.bodyBytes);
      if (this.bodyBytes < excerptBytes)
        this.excerpt = Buffer.concat([this.excerpt, part.subarray(0, excerptBytes)]);
      this.bodyBytes += part.length;
      this.#at += part.length;
      if (this.bodyBytes < end) yield;
    }
  }

  *#readLine(isStatus = false): Generator<undefined, string> {
    for (let end = -1; end < 0; ) {
      end = this.#bytes.indexOf(10, this.#at);
      const to = end < 0 ? this.#bytes.length : end + 1;
      const isNew = this.#line.length < begins.length;
      this.#line += this.#bytes.toString('latin1', this.#at, to);
      this.#headBytes += to - this.#at;
      this.#at = to;
      if (isStatus && isNew) this.#checkBeginning();
      const isOneLine = this.#line.length > this.#headBytes / 2;
      if (this.#headBytes > maxHeadBytes) throw broken(isOneLine ? 'not_http' : 'endless_interim');
      if (end < 0) yield;
    }
    const line = this.#line;
    this.#line = '';
    if (line.endsWith('\r\n') && line.at(-3) !== '\r') return line.slice(0, -2);
    this.#isRegular = false;
    // A script that writes text on Windows ends its lines with CRCRLF.
    return line.replace(/\r{0,2}\n$/, '');
  }
}

/** A token, a colon, and visible characters, blanks, tabs or bytes above ASCII (RFC 9110, section 5). */
const regularHeader = /^[!#$%&'*+.^_`|~\w-]+:[\t\x20-\x7e\x80-\xff]*$/;

const broken = (detail: DetailOf<'protocol'>) => new AttemptFailed({ error: 'protocol', detail });

function otherProtocol(text: string): DetailOf<'protocol'> {
  // The first frame of an HTTP/2 server is SETTINGS (RFC 9113, section 3.4), before or without a GOAWAY.
  if (text.startsWith('\0\0') && ['\x04', '\x07'].includes(text.charAt(3))) return 'http2_only';
  // An alert of TLS (RFC 8446, section 5.1).
  return text.startsWith('\x15\x03') ? 'https_expected' : 'not_http';
}
