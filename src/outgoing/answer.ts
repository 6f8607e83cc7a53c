import * as zlib from 'node:zlib';
import { type AnswerReader, excerptBytes } from './answerReader.js';
import type { AttemptRemark } from './details.js';
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
  /** What the attempt showed beside its end. */
  remarks?: AttemptRemark[];
}

/** With these statuses servers answer what a body that nobody read makes of the next request. */
const misreadStatuses = [400, 405, 501];

/** Makes the result of an attempt whose answer has a status. */
export function resultOf(answer: AnswerReader): Omit<PostResult, 'milliseconds'> {
  const { status, isReused } = answer;
  if (status < 300) return { ok: true, status };
  const [asked] = status === 429 || status === 503 ? answer.valuesOf('retry-after') : [];
  const [location] = status < 400 ? answer.valuesOf('location') : [];
  const clockMs = dateOf(answer.valuesOf('date')[0]);
  const wait = asked === undefined ? undefined : retryAfter(asked, clockMs ?? Date.now());
  const text = location === undefined ? textOf(answer) : `Location: ${location}`;
  const remarks: [AttemptRemark, boolean][] = [
    ['used_connection', isReused && misreadStatuses.includes(status)],
    ['clock_off', wait?.isPast === true || isOff(clockMs, answer)],
    ['answer_unreadable', text === undefined],
  ];
  return {
    ok: false,
    status,
    error: status < 400 ? 'redirect' : 'http_status',
    detail: asked !== undefined && wait === undefined ? 'retry_after_unreadable' : undefined,
    retryAfterMs: wait?.ms,
    responseExcerpt: text === undefined ? undefined : excerptOf(text),
    remarks: remarks.flatMap(([remark, isSeen]) => (isSeen ? [remark] : [])),
  };
}

/**
 * Reads the body; undefined where it has no text that can be told. Some servers compress for whoever does not ask for it.
 * A page in UTF-16, read as UTF-8, would hide what it says from people, and its secrets from `withoutValues`: so may one in an unknown
 * charset unless it is valid UTF-8, and what has a NUL.
 */
function textOf(answer: AnswerReader): string | undefined {
  const codings = answer.valuesOf('content-encoding').join(',').toLowerCase().split(/[ ,]+/).filter(Boolean);
  const bytes =
    codings.length > maxCodings ? undefined : codings.reduceRight<Buffer | undefined>(unpack, answer.excerpt);
  if (bytes === undefined || (bytes.length === 0 && answer.bodyBytes > 0)) return undefined;
  const [, named] = /charset {0,8}= {0,8}["']?([\w-]+)/i.exec(String(answer.valuesOf('content-type'))) ?? [];
  // Its text is written in ASCII, but not as itself.
  if (/utf-?7$/i.test(named ?? '')) return undefined;
  const isPlain = named === undefined && codings.length === 0;
  const text = decode(bytes, named ?? wideCharset(bytes)) ?? decode(bytes, 'utf-8', !isPlain);
  return text?.includes('\0') && !isPlain ? undefined : text;
}

/** Returns the charset of a text whose characters are two bytes each: it has a mark, or begins as no other. */
function wideCharset(bytes: Buffer): string | undefined {
  const beginning = bytes.toString('latin1', 0, 16);
  if (/^(\xff\xfe|([^\0]\0){8})/.test(beginning)) return 'utf-16le';
  return /^(\xfe\xff|(\0[^\0]){8})/.test(beginning) ? 'utf-16be' : undefined;
}

function decode(bytes: Buffer, label: string | undefined, fatal = false): string | undefined {
  try {
    if (label === undefined) return undefined;
    return new TextDecoder(label, { fatal }).decode(bytes.subarray(0, excerptBytes), { stream: true });
  } catch {
    return undefined;
  }
}

/**
 * Of what is packed only the beginning may be there, be sound, or have room unpacked: then a shorter beginning is tried. Some servers
 * name a coding and send plain text, which what is packed never is.
 */
function unpack(packed: Buffer | undefined, coding: string): Buffer | undefined {
  const unpackersOfIt = unpackers.get(coding);
  if (packed === undefined || unpackersOfIt === undefined) return undefined;
  for (let { length } = packed; length > 0; length >>= 1)
    for (const one of unpackersOfIt)
      try {
        const unpacked = one(packed.subarray(0, length));
        if (unpacked.length > 0) return unpacked;
      } catch {}
  return decode(packed, 'utf-8', true) === undefined ? undefined : packed;
}

const maxOutputLength = 64 * 1024;
const zipped = { finishFlush: zlib.constants.Z_SYNC_FLUSH, maxOutputLength };
const gzip = [(bytes: Buffer) => zlib.unzipSync(bytes, zipped)];
const flushed = { finishFlush: zlib.constants.BROTLI_OPERATION_FLUSH, maxOutputLength };
/** A receiver names them: a Map has no other names. */
const unpackers = new Map<string, ((bytes: Buffer) => Buffer)[]>([
  ['identity', [(bytes) => bytes]],
  ['gzip', gzip],
  ['x-gzip', gzip],
  // Some servers leave out the header of zlib.
  ['deflate', [...gzip, (bytes) => zlib.inflateRawSync(bytes, zipped)]],
  ['br', [(bytes) => zlib.brotliDecompressSync(bytes, flushed)]],
]);
/** Each costs time; a server and a proxy before it have one each. */
const maxCodings = 3;

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

/** The clocks of a publisher's servers may be so far off before they refuse our timestamps. */
const toleratedMs = 5 * 60_000;

/** Returns whether the clock of the answer is not ours; what a cache keeps is as old as it says (RFC 9111, section 5.1). */
function isOff(clockMs: number | undefined, answer: AnswerReader): boolean {
  const [age] = answer.valuesOf('age');
  return clockMs !== undefined && age === undefined && Math.abs(clockMs - Date.now()) > toleratedMs;
}

/**
 * Reads `Retry-After` (RFC 9110 section 10.2.3): seconds or any of the three HTTP dates.
 * @param nowMs by the clock that wrote it: an hour's error would make a minute an hour, or nothing
 * @returns milliseconds from now, 0 for a date that has passed, at most 24 h; undefined when unreadable
 */
function retryAfter(header: string, nowMs: number): { ms: number; isPast: boolean } | undefined {
  // Proxies join two headers with a comma, which most dates have too.
  const [text = ''] = /^([a-z]+,)?[^,]*/i.exec(header) ?? [];
  if (/^\d+ *$/.test(text)) return { ms: Math.min(Number(text) * 1000, dayMs), isPast: false };
  const atMs = dateOf(text);
  if (atMs === undefined) return undefined;
  return { ms: Math.min(Math.max(atMs - nowMs, 0), dayMs), isPast: atMs < nowMs };
}

function dateOf(text = ''): number | undefined {
  const atMs = weekday.test(text) ? Date.parse(zone.test(text) ? text : `${text} GMT`) : Number.NaN;
  return Number.isNaN(atMs) ? undefined : atMs;
}

/** Statuses with which a proxy says that what is behind it fails: another address may have another. */
const proxyStatuses = [502, 503, 504];

/** True for a failure that a closed way out would look like. */
export const isSilence = ({ error, detail, ours }: Failure): boolean =>
  ours === undefined && (error === 'timeout' || detail === 'no_answer' || detail === 'unreachable');

/** True if another address of the receiver may do better. */
export const isOfMachine = ({ ours, status, retryAfterMs }: Partial<PostResult>): boolean =>
  ours === undefined &&
  (status === undefined || (proxyStatuses.includes(status) && retryAfterMs === undefined));
