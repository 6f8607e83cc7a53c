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
  /** The first 1 KiB of a failed answer, or the `Location` of a redirect, see {@link excerptOf}. */
  responseExcerpt?: string;
}

/** Makes the result of an attempt whose answer has a status. */
export function resultOf(answer: AnswerReader): Omit<PostResult, 'milliseconds'> {
  const { status } = answer;
  if (status < 300) return { ok: true, status };
  const [asked] = status === 429 || status === 503 ? answer.valuesOf('retry-after') : [];
  const [location] = status < 400 ? answer.valuesOf('location') : [];
  const waitMs = asked === undefined ? undefined : retryAfterMs(asked);
  return {
    ok: false,
    status,
    error: status < 400 ? 'redirect' : 'http_status',
    detail: asked !== undefined && waitMs === undefined ? 'retry_after_unreadable' : undefined,
    retryAfterMs: waitMs,
    responseExcerpt: excerptOf(location === undefined ? textOf(answer) : `Location: ${location}`),
  };
}

/**
 * Reads the body. Some servers compress for whoever does not ask for it, and of what is packed only the beginning may be there.
 * A page in UTF-16, read as UTF-8, would hide what it says from people, and its secrets from `withoutValues`.
 */
function textOf(answer: AnswerReader): string {
  const { excerpt } = answer;
  const [coding] = answer.valuesOf('content-encoding');
  const [charset] = /(?<=charset *= *["']?)[\w-]+/i.exec(String(answer.valuesOf('content-type'))) ?? [];
  const maxOutputLength = 64 * 1024;
  const decoded = (bytes: Buffer, label?: string) =>
    new TextDecoder(label).decode(bytes.subarray(0, excerptBytes), { stream: true });
  try {
    if (coding === undefined) return decoded(excerpt, charset);
    const unpacked = /^br$/i.test(coding)
      ? brotliDecompressSync(excerpt, { finishFlush: constants.BROTLI_OPERATION_FLUSH, maxOutputLength })
      : unzipSync(excerpt, { finishFlush: constants.Z_SYNC_FLUSH, maxOutputLength });
    return decoded(unpacked, charset);
  } catch {
    return decoded(excerpt);
  }
}

/** Returns at most 1 KiB of a text as it is safe to show: white space as blanks, other control and direction-changing characters as U+FFFD. */
function excerptOf(text: string): string | undefined {
  let bytes = 0;
  let safe = '';
  // Characters become longer, an invalid byte three bytes, a quotation mark two: the text is cut again.
  for (const character of text.replace(/[\t\n\r]+/g, ' ').replace(unsafeCharacters, '\ufffd')) {
    bytes += Buffer.byteLength(JSON.stringify(character)) - 2;
    if (bytes > excerptBytes) break;
    safe += character;
  }
  return safe === '' ? undefined : safe;
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
function retryAfterMs(header: string): number | undefined {
  // Proxies join two headers with a comma, which most dates have too.
  const [text = ''] = /^([a-z]+,)?[^,]*/i.exec(header) ?? [];
  if (/^\d+ *$/.test(text)) return Math.min(Number(text) * 1000, dayMs);
  if (!weekday.test(text)) return undefined;
  const at = Date.parse(zone.test(text) ? text : `${text} GMT`);
  return Number.isNaN(at) ? undefined : Math.min(Math.max(at - Date.now(), 0), dayMs);
}
