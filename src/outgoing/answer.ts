import type { AttemptDetail, AttemptError, DetailOf } from './details.js';
import type { Ours } from './failures.js';

/** The result of an attempt. */
export interface PostResult {
  ok: boolean;
  status?: number;
  error?: AttemptError;
  /** What went wrong, below the class. */
  detail?: AttemptDetail;
  /** Set if the failure is an own failure of this process or host, not the receiver's. */
  ours?: Ours;
  /** More about an own failure, for operators. */
  why?: string;
  /** Time from the start of the attempt until its result is known. */
  milliseconds: number;
  /** `Retry-After` of a 429 or 503, at most 24 h. */
  retryAfterMs?: number;
  remoteAddress?: string;
  /** The first 1 KiB of a failed answer, see {@link excerptOf}. */
  responseExcerpt?: string;
}

/** How much of a failed answer is read, and the most that is kept for the publisher to read, as JSON. */
export const excerptBytes = 1_024;

/** A receiver's answer, as much as has come of it. */
export class Answer {
  readonly isOk: boolean;
  #retryAfterMs: number | undefined;
  #detail: DetailOf<'http_status'> | undefined;
  readonly #excerpt: Buffer[] = [];
  bodyBytes = 0;

  constructor(readonly status: number) {
    this.isOk = status < 300;
  }

  readRetryAfter(value: string | undefined): void {
    if (value === undefined || (this.status !== 429 && this.status !== 503)) return;
    this.#retryAfterMs = retryAfterMs(value);
    if (this.#retryAfterMs === undefined) this.#detail = 'retry_after_unreadable';
  }

  add(chunk: Buffer): void {
    // A copy: the chunk is a view into the whole read buffer.
    if (!this.isOk && this.bodyBytes < excerptBytes)
      this.#excerpt.push(Buffer.from(chunk.subarray(0, excerptBytes)));
    this.bodyBytes += chunk.length;
  }

  /** Makes the result of an attempt with this answer. */
  result(): Omit<PostResult, 'milliseconds'> {
    const { status } = this;
    if (this.isOk) return { ok: true, status };
    return {
      ok: false,
      status,
      error: status < 400 ? 'redirect' : 'http_status',
      detail: this.#detail,
      retryAfterMs: this.#retryAfterMs,
      responseExcerpt: this.#excerpt.length > 0 ? excerptOf(this.#excerpt) : undefined,
    };
  }
}

/**
 * Returns the first 1 KiB of an answer as text that is safe to show: valid UTF-8, without a character that is cut at the
 * end, white space as blanks, other control and direction-changing characters as U+FFFD.
 */
export function excerptOf(chunks: readonly Buffer[]): string {
  const start = Buffer.concat(chunks).subarray(0, excerptBytes);
  const text = new TextDecoder('utf-8').decode(start, { stream: true });
  return cutToJson(text.replace(/[\t\n\r]+/g, ' ').replace(unsafeCharacters, '\ufffd'));
}

/** Cuts a text whose characters have become longer: an invalid byte three bytes, a quotation mark two. */
function cutToJson(text: string): string {
  let bytes = 0;
  let cut = '';
  for (const character of text) {
    bytes += Buffer.byteLength(JSON.stringify(character)) - 2;
    if (bytes > excerptBytes) break;
    cut += character;
  }
  return cut;
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is looked for
const unsafeCharacters = /[\u0000-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069]/g;

const dayMs = 24 * 3_600_000;
const weekday = /^(Mon|Tue|Wed|Thu|Fri|Sat|Sun)/;
/** asctime's form has none; without one Date.parse takes the time of this machine. */
const zone = /[A-Z]$| [+-]\d{4}$/;

/**
 * Reads `Retry-After` (RFC 9110 section 10.2.3): seconds or any of the three HTTP dates.
 * @returns milliseconds from now, 0 for a date that has passed, at most 24 h; undefined when unreadable
 */
function retryAfterMs(text: string): number | undefined {
  if (/^\d+$/.test(text)) return Math.min(Number(text) * 1000, dayMs);
  if (!weekday.test(text)) return undefined;
  const at = Date.parse(zone.test(text) ? text : `${text} GMT`);
  return Number.isNaN(at) ? undefined : Math.min(Math.max(at - Date.now(), 0), dayMs);
}
