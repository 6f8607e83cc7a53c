/** Tables and lists of facts for people, in plain characters: they are read, piped and pasted. Colours only at a terminal. */
import { styleText } from 'node:util';

export type Colour = 'red' | 'yellow' | 'green';
type Value = string | number | boolean | undefined | null;
type Cell = Value | { text: Value; colour: Colour | undefined };

/** Returns a table with a heading, or the text `none` if there are no rows. */
export function table(head: readonly string[], rows: readonly (readonly Cell[])[], none: string): string {
  return rows.length === 0 ? none : columns([head, ...rows]);
}

/** Returns names and values, one a line; names without a value are left out. */
export function facts(of: Readonly<Record<string, Value>>): string {
  return columns(
    Object.entries(of).filter(([, value]) => value !== undefined && value !== null && value !== ''),
  );
}

function columns(rows: readonly (readonly Cell[])[]): string {
  const texts = rows.map((row) => row.map((cell) => printable(isColoured(cell) ? cell.text : cell)));
  const widthOf = (i: number) => texts.reduce((most, row) => Math.max(most, row[i]?.length ?? 0), 0);
  const widths = texts[0]?.map((_, i) => widthOf(i)) ?? [];
  const lines = rows.map((row, r) =>
    row.map((cell, i) => {
      const text = texts[r]?.[i] ?? '';
      const padding = ' '.repeat((widths[i] ?? 0) - text.length);
      return (isColoured(cell) ? paint(cell.colour, text) : text) + padding;
    }),
  );
  return lines.map((line) => line.join('  ').trimEnd()).join('\n');
}

const isColoured = (cell: Cell): cell is Exclude<Cell, Value> => typeof cell === 'object' && cell !== null;

/**
 * Replaces control and format characters, so that text of a receiver or a publisher cannot control an operator's
 * terminal, nor look like other text in it (U+202E turns what follows).
 */
function printable(value: Value): string {
  return String(value ?? '').replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, '\u{fffd}');
}

/** Colours text if standard output is a terminal; Node reads NO_COLOR, FORCE_COLOR and TERM=dumb. */
export function paint(colour: Colour | undefined, text: string): string {
  const showsColours = process.stdout.isTTY === true && process.stdout.hasColors();
  return colour !== undefined && showsColours ? styleText(colour, text, { validateStream: false }) : text;
}
