/**
 * Parses arguments and options, and writes times, amounts, tables and lists of facts. Their characters are plain, because people
 * read, pipe and paste them.
 */
import { InvalidArgumentError } from 'commander';
import { type ClientToken, isClientToken, isNoticesClient, isNotificationId } from '../ids.js';
import type { Endpoint } from '../redis/records/endpoint.js';

export function parseClientToken(text: string): ClientToken {
  if (isClientToken(text)) return text;
  throw new InvalidArgumentError('A client token is 1 to 64 of A-Z a-z 0-9 _ -.');
}

/** Parses the token of any client, including clients of notices. */
export function parseAnyClient(text: string): ClientToken {
  return isNoticesClient(text) ? text : parseClientToken(text);
}

export function parseNotificationId(text: string): string {
  if (isNotificationId(text)) return text;
  throw new InvalidArgumentError('A notification id is msg_ followed by 22 characters.');
}

const unitMs: Record<string, number> = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 };

/** Parses `2026-11-21`, `2026-11-21T14:00:00Z`, or how long ago: `90s`, `15m`, `2h`, `3d`, `1w`. Returns ms. */
export function parseMoment(text: string): number {
  const ago = /^(\d+(?:\.\d+)?)([smhdw])$/.exec(text);
  if (ago) return Date.now() - Number(ago[1]) * (unitMs[ago[2] ?? ''] ?? 0);
  const atMs = /^\d{4}-\d{2}-\d{2}/.test(text) ? Date.parse(text) : Number.NaN;
  if (!Number.isNaN(atMs)) return atMs;
  throw new InvalidArgumentError('Give a date (2026-11-21T14:00:00Z) or how long ago (15m, 2h, 3d).');
}

/** Writes a time for programs: ISO 8601, UTC. */
export function moment(atMs: number | undefined): string | null {
  return atMs === undefined ? null : new Date(atMs).toISOString();
}

/** Writes a time for people: `3 min ago`, `in 20 s`. */
export function fromNow(atMs: number | undefined): string {
  if (atMs === undefined) return '';
  const apart = span(Math.abs(Date.now() - atMs));
  return atMs > Date.now() ? `in ${apart}` : `${apart} ago`;
}

/** Writes a span of time: `850 ms`, `42 s`, `17 min`, `5 h`, `3 d`. */
export function span(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 120_000) return `${Math.round(ms / 1000)} s`;
  if (ms < 7_200_000) return `${Math.round(ms / 60_000)} min`;
  if (ms < 172_800_000) return `${Math.round(ms / 3_600_000)} h`;
  return `${Math.round(ms / 86_400_000)} d`;
}

/** Names a number of things: `1 client`, `2 clients`. */
export const amount = (n: number, one: string): string => `${n} ${n === 1 ? one : `${one}s`}`;

/** Writes the class of a receiver's last failure, and its status if it answered. */
export function presentLastError({ lastError, lastStatus }: Endpoint): string {
  return [lastError, lastStatus].filter((part) => part !== undefined).join(' ');
}

export type Value = string | number | boolean | undefined | null;

/** Returns a table with a heading, or the text `none` if there are no rows. */
export function table(head: readonly string[], rows: readonly (readonly Value[])[], none: string): string {
  return rows.length === 0 ? none : columns([head, ...rows]);
}

/** Returns names and values, one a line; names without a value are left out. */
export function facts(of: Readonly<Record<string, Value>>): string {
  return columns(
    Object.entries(of).filter(([, value]) => value !== undefined && value !== null && value !== ''),
  );
}

function columns(rows: readonly (readonly Value[])[]): string {
  const texts = rows.map((row) => row.map(printable));
  const widths = texts[0]?.map((_, i) => Math.max(...texts.map((row) => row[i]?.length ?? 0))) ?? [];
  const lines = texts.map((row) => row.map((text, i) => text.padEnd(widths[i] ?? 0)).join('  '));
  return lines.map((line) => line.trimEnd()).join('\n');
}

/**
 * Replaces control and format characters, so that text of a receiver or a publisher cannot control an operator's
 * terminal, nor look like other text in it (U+202E turns what follows).
 */
function printable(value: Value): string {
  return String(value ?? '').replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, '\u{fffd}');
}
