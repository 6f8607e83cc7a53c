/** Tables and lists of facts for people, in plain characters: they are read, piped and pasted. Colours only at a terminal. */
import { styleText } from 'node:util';
import Table from 'cli-table3';

export type Colour = 'red' | 'yellow' | 'green' | 'dim' | 'bold' | 'cyan';

type Value = string | number | boolean | undefined | null;
type Cell = Value | { text: Value; colour: Colour | undefined };

const bare = {
  top: '',
  'top-mid': '',
  'top-left': '',
  'top-right': '',
  bottom: '',
  'bottom-mid': '',
  'bottom-left': '',
  'bottom-right': '',
  left: '',
  'left-mid': '',
  mid: '',
  'mid-mid': '',
  right: '',
  'right-mid': '',
  middle: '  ',
};

const plain = {
  chars: bare,
  style: { head: [], border: [], 'padding-left': 0, 'padding-right': 0 },
};

/** Returns a table with a heading, or the text `none` if there are no rows. */
export function table(head: readonly string[], rows: readonly (readonly Cell[])[], none: string): string {
  if (rows.length === 0) return none;
  const drawn = new Table({ ...plain, head: [...head] });
  for (const row of rows) drawn.push(row.map(cell));
  return tidy(drawn.toString());
}

/** Returns names and values, one a line; names without a value are left out. */
export function facts(of: Readonly<Record<string, Cell>>): string {
  const drawn = new Table(plain);
  for (const [name, value] of Object.entries(of)) {
    if (value !== undefined && value !== null && value !== '') drawn.push([name, cell(value)]);
  }
  return tidy(drawn.toString());
}

function cell(value: Cell): string {
  if (typeof value === 'object' && value !== null) return paint(value.colour, cell(value.text));
  return value === undefined || value === null ? '' : printable(String(value));
}

/** Removes control characters, so that text of a receiver or a publisher cannot control an operator's terminal. */
function printable(value: string): string {
  return value.replace(/\p{Cc}/gu, '\u{fffd}');
}

function tidy(drawn: string): string {
  return drawn
    .split('\n')
    .map((line) => line.trimEnd())
    .join('\n');
}

/** Colours text if standard output is a terminal; Node reads NO_COLOR, FORCE_COLOR and TERM=dumb. */
export function paint(colour: Colour | undefined, text: string): string {
  const showsColours = process.stdout.isTTY === true && process.stdout.hasColors();
  return colour !== undefined && showsColours ? styled(colour, text) : text;
}

/** Colours always: commander removes colours by itself without a terminal. */
export function styled(colour: Colour, text: string): string {
  return styleText(colour, text, { validateStream: false });
}
