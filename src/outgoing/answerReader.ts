import type { DetailOf } from './details.js';
import { AttemptFailed } from './failures.js';

/** How much of a body is kept, and the most that is kept of it for the publisher to read, as JSON. */
export const excerptBytes = 1_024;

/** The most bytes of 1xx answers, status line, headers, trailers and sizes of chunks: four times what common clients take. */
const maxHeadBytes = 64 * 1024;
const statusLine = /^HTTP\/1\.\d +([1-9]\d\d)(?: .*)?$/;
const begins = 'HTTP/1.';

/** `#left` bytes of a body follow in `sized` and `chunk`, and all until the end of the connection in `rest`. */
type State = 'status' | 'headers' | 'sized' | 'size' | 'chunk' | 'chunk end' | 'trailers' | 'rest' | 'over';

/**
 * Reads the answer to one request. Its status line is what counts: whatever is wrong with the rest (a folded or broken header,
 * contradictory lengths, a line without CR, bytes after the end) only ends the connection. Only an answer in
 * which everything is as RFC 9112 has it lets the connection be used again.
 */
export class AnswerReader {
  /** A byte of this answer has come. */
  hasBegun = false;
  /** The connection was there before the request. */
  isKept = false;
  /** Time that the server says it keeps the connection (`Keep-Alive`). */
  keptMs = Number.POSITIVE_INFINITY;
  /** 0 until the status line has come, of the answer itself and not of a 1xx before it. */
  status = 0;
  /** The headers have ended, or are not read any further. */
  hasHeaders = false;
  bodyBytes = 0;
  /** The body, at least its first 1 KiB. */
  excerpt = Buffer.alloc(0);
  #state: State = 'status';
  #isRegular = true;
  #line = '';
  #headBytes = 0;
  #isPersistent = true;
  #left = 0;
  /** The value of the last may go on in the next line. */
  #headers: { name: string; value: string }[] = [];

  get retryAfter(): string | undefined {
    return this.#valuesOf('retry-after')[0];
  }

  get isOver(): boolean {
    return this.#state === 'over';
  }

  /** The answer was read whole and nothing came after it, so that another request may follow. */
  get isReusable(): boolean {
    return this.isOver && this.#isRegular && this.#isPersistent;
  }

  /** Reads what has come. @throws AttemptFailed if it is no answer in HTTP/1 */
  read(bytes: Buffer): void {
    let at = 0;
    while (at < bytes.length && !this.isOver) {
      const isBody = this.#state === 'sized' || this.#state === 'chunk' || this.#state === 'rest';
      at = isBody ? this.#readBody(bytes, at) : this.#readLine(bytes, at);
    }
    if (at < bytes.length) this.#isRegular = false;
  }

  /** The connection has ended. @throws AttemptFailed if there is no status */
  end(): void {
    if (this.status === 0)
      throw broken(this.#line === '' ? 'closed_without_answer' : 'closed_in_status_line');
    this.#stop();
  }

  #readLine(bytes: Buffer, from: number): number {
    const end = bytes.indexOf(10, from);
    const to = end < 0 ? bytes.length : end;
    this.#line += bytes.toString('latin1', from, to);
    this.#headBytes += to - from + 1;
    if (this.#state === 'status') this.#checkBeginning();
    if (this.#headBytes > maxHeadBytes) {
      if (this.status === 0) throw broken('endless_interim');
      this.#stop();
    } else if (end >= 0) {
      const line = this.#line;
      this.#line = '';
      if (line.endsWith('\r')) this.#takeLine(line.slice(0, -1));
      else {
        this.#isRegular = false;
        this.#takeLine(line);
      }
    }
    return to + 1;
  }

  /** Says as early as possible that this is not HTTP/1: a server of another protocol may wait for more of the request. */
  #checkBeginning(): void {
    const beginning = this.#line.slice(0, begins.length);
    if (beginning === '' || beginning === '\r') return;
    if (!begins.startsWith(beginning)) throw broken(otherProtocol(this.#line));
    this.hasBegun = true;
  }

  #takeLine(line: string): void {
    switch (this.#state) {
      case 'status':
        this.#takeStatus(line);
        break;
      case 'headers':
        if (line === '') this.#endHeaders();
        else this.#takeHeader(line);
        break;
      case 'size':
        this.#left = /^[\da-f]{1,12} *(;.*)?$/i.test(line) ? Number.parseInt(line, 16) : Number.NaN;
        if (Number.isNaN(this.#left)) this.#stop();
        else this.#state = this.#left === 0 ? 'trailers' : 'chunk';
        break;
      case 'chunk end':
        if (line === '') this.#state = 'size';
        else this.#stop();
        break;
      case 'trailers':
        if (line === '') this.#state = 'over';
    }
  }

  #takeStatus(line: string): void {
    // Some servers send a CRLF more after a body.
    if (line === '') this.#isRegular = false;
    else {
      const status = Number(statusLine.exec(line)?.[1]);
      if (Number.isNaN(status)) throw broken('not_http');
      if (status === 101) throw broken('switching_protocols');
      // RFC 9110, section 15.5.9: some load balancers say so before they close a connection that rests.
      if (status === 408 && this.isKept) {
        this.hasBegun = false;
        throw broken('closed_without_answer');
      }
      this.#state = 'headers';
      this.#isPersistent = !line.startsWith('HTTP/1.0');
      if (status < 200) return;
      this.status = status;
    }
  }

  #takeHeader(line: string): void {
    if (!regularHeader.test(line)) this.#isRegular = false;
    const colon = line.indexOf(':');
    const last = this.#headers.at(-1);
    if (/^[ \t]/.test(line)) {
      if (last !== undefined) last.value = `${last.value} ${line.trim()}`.trim();
    } else if (colon >= 0) {
      const name = line.slice(0, colon).trim().toLowerCase();
      this.#headers.push({ name, value: line.slice(colon + 1).trim() });
    }
  }

  #valuesOf(name: string): string[] {
    return this.#headers.filter((header) => header.name === name).map(({ value }) => value);
  }

  #endHeaders(): void {
    if (this.status === 0) {
      this.#headers = [];
      this.#state = 'status';
      return;
    }
    const [length, ...lengths] = this.#valuesOf('content-length');
    const codings = this.#valuesOf('transfer-encoding');
    const coding = codings.length > 0 ? codings.join(', ') : undefined;
    const connection = this.#valuesOf('connection').join(', ');
    if (lengths.length > 0) this.#isRegular = false;
    if (/\bclose\b/i.test(connection)) this.#isPersistent = false;
    else if (/\bkeep-alive\b/i.test(connection)) this.#isPersistent = true;
    const kept = /\btimeout *= *(\d+)/i.exec(this.#valuesOf('keep-alive').join(', '))?.[1];
    if (kept !== undefined) this.keptMs = Number(kept) * 1000;
    this.hasHeaders = true;
    if (this.status === 204 || this.status === 304) {
      // Some servers send the body, or the end of a chunked one, all the same and later.
      if (coding !== undefined || (length ?? '0') !== '0') this.#isRegular = false;
      this.#state = 'over';
    } else if (coding !== undefined) {
      if (length !== undefined || !/^chunked$/i.test(coding)) this.#isRegular = false;
      this.#state = /chunked$/i.test(coding) ? 'size' : 'rest';
    } else if (length !== undefined && /^\d{1,15}$/.test(length)) {
      this.#left = Number(length);
      this.#state = this.#left === 0 ? 'over' : 'sized';
    } else this.#state = 'rest';
  }

  #readBody(bytes: Buffer, from: number): number {
    const to = this.#state === 'rest' ? bytes.length : Math.min(bytes.length, from + this.#left);
    if (this.bodyBytes < excerptBytes)
      this.excerpt = Buffer.concat([this.excerpt, bytes.subarray(from, Math.min(to, from + excerptBytes))]);
    this.bodyBytes += to - from;
    this.#left -= to - from;
    if (this.#left === 0 && this.#state === 'sized') this.#state = 'over';
    if (this.#left === 0 && this.#state === 'chunk') this.#state = 'chunk end';
    return to;
  }

  /** Reads no further. */
  #stop(): void {
    this.hasHeaders = true;
    this.#isRegular = false;
    this.#state = 'over';
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
