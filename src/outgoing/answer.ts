import { brotliDecompressSync, constants, unzipSync } from 'node:zlib';
import { type AnswerReader, excerptBytes } from './answerReader.js';
import type { Failure } from './failures.js';

export interface PostResult extends Partial<Failure> {
  ok: boolean;
  status?: number;
  /** Time from the start of the attempt until its result is known. */
  milliseconds: number;
  /** `Retry-After` of a 429 or 503, at most 24 h. */
  retryAfterMs?: number;
  remoteAddress?: string;
  /** The first 1 KiB of a failed answer, see {@link excerptOf}. */
  responseExcerpt?: string;
}

/** Makes the result of an attempt whose answer has a status. */
export function resultOf(answer: AnswerReader): Omit<PostResult, 'milliseconds'> {
  const { status, retryAfter, excerpt } = answer;
  if (status < 300) return { ok: true, status };
  const asked = status === 429 || status === 503 ? retryAfter : undefined;
  const waitMs = asked === undefined ? undefined : retryAfterMs(asked);
  return {
    ok: false,
    status,
    error: status < 400 ? 'redirect' : 'http_status',
    detail: asked !== undefined && waitMs === undefined ? 'retry_after_unreadable' : undefined,
    retryAfterMs: waitMs,
    responseExcerpt: excerpt.length > 0 ? excerptOf(unpacked(answer)) : undefined,
  };
}

/** Some servers compress for whoever does not ask for it. Of what is packed only the beginning may be there. */
function unpacked({ contentEncoding, excerpt }: AnswerReader): Buffer {
  if (contentEncoding === undefined) return excerpt;
  const maxOutputLength = 64 * 1024;
  try {
    return /^br$/i.test(contentEncoding)
      ? brotliDecompressSync(excerpt, { finishFlush: constants.BROTLI_OPERATION_FLUSH, maxOutputLength })
      : unzipSync(excerpt, { finishFlush: constants.Z_SYNC_FLUSH, maxOutputLength });
  } catch {
    return excerpt;
  }
}

/**
 * Returns the first 1 KiB of an answer as text that is safe to show: valid UTF-8, without a character that is cut at the
 * end, white space as blanks, other control and direction-changing characters as U+FFFD.
 */
function excerptOf(body: Buffer): string {
  const start = body.subarray(0, excerptBytes);
  const text = new TextDecoder('utf-8').decode(start, { stream: true }).replace(/[\t\n\r]+/g, ' ');
  let bytes = 0;
  let safe = '';
  // Characters become longer, an invalid byte three bytes, a quotation mark two: the text is cut again.
  for (const character of text.replace(unsafeCharacters, '\ufffd')) {
    bytes += Buffer.byteLength(JSON.stringify(character)) - 2;
    if (bytes > excerptBytes) break;
    safe += character;
  }
  return safe;
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
