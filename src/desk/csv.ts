/** A list as CSV (RFC 4180). */
import { Readable } from 'node:stream';
import { setImmediate as nextRound } from 'node:timers/promises';

export const csvOf = (columns: readonly string[], list: readonly Record<string, unknown>[]): Readable =>
  Readable.from(piecesOf(columns, list));

const rowsPerPiece = 500;

/** Writes a list of any length in pieces: everybody's calls wait meanwhile. */
async function* piecesOf(columns: readonly string[], list: readonly Record<string, unknown>[]) {
  // Excel recognises UTF-8 by its mark only.
  yield `\ufeff${columns.join(',')}\r\n`;
  for (let at = 0; at < list.length; at += rowsPerPiece) {
    await nextRound();
    const rows = list.slice(at, at + rowsPerPiece);
    yield rows.map((one) => `${columns.map((name) => cell(one[name])).join(',')}\r\n`).join('');
  }
}

/** RFC 4180. A program for tables takes a cell that begins with one of these, also of full width, for a formula. */
function cell(value: unknown): string {
  const text = typeof value === 'string' ? value : value == null ? '' : JSON.stringify(value);
  return `"${text.replace(/^[=+\-@＝＋－＠\t\r\n]/, "'$&").replaceAll('"', '""')}"`;
}
