/**
 * Answers as people read them: their parts, made of a value, and written for a terminal. Their characters are plain, because people
 * read, pipe and paste them.
 */
import { styleText } from 'node:util';
import { distance } from '../web/words.js';

export type Value = string | number | boolean | undefined | null;

/** A part of an answer as people read it. A tone colours a sentence's lead, and the first cells of a table that name a level. */
export type Part =
  | string
  | { tone: 'good' | 'warn' | 'bad'; lead: string; text: string }
  | { title?: string; facts: Readonly<Record<string, Value>> }
  | Table;

type Table = { head: readonly string[]; rows: readonly (readonly Value[])[]; none: string; isCut?: boolean };

/** Shows an object: its members as facts, then each object and list among them. */
export function shownOf(value: object, title?: string): Part[] {
  const members = Object.entries(value);
  const inner = members.filter(([, one]) => isNested(one));
  const plain = members.filter(([, one]) => !isNested(one));
  return [
    { title, facts: Object.fromEntries(plain.map(([name, one]) => [name, inWords(one)])) },
    ...inner.flatMap(([name, one]) =>
      Array.isArray(one) ? [tableOf(one, `No ${name.replaceAll('_', ' ')}.`)] : shownOf(one, `${name}:`),
    ),
  ];
}

const isNested = (one: unknown): boolean =>
  typeof one === 'object' && one !== null && (!Array.isArray(one) || typeof one[0] !== 'string');

/** Shows a list of objects. @param columns the members to show; all that any has if absent */
export function tableOf(
  list: readonly object[],
  none: string,
  columns: readonly string[] = [...new Set(list.flatMap(Object.keys))],
): Table {
  const head = columns.map((name) => name.replaceAll('_', ' ').toUpperCase());
  const rows = list.map((one) =>
    columns.map((name) => brief(Object.entries(one).find(([member]) => member === name)?.[1])),
  );
  return { head, rows, none, isCut: true };
}

const isTime = (value: unknown): value is string =>
  typeof value === 'string' && /^\d{4}-\d\d-\d\dT[\d:.]+Z$/.test(value);

const inWords = (value: unknown): Value =>
  isTime(value) ? `${value}, ${distance(Date.parse(value))}` : inCell(value);

/** Of a URL its host; `--json` has all of it. */
function brief(value: unknown): Value {
  const text = inCell(value);
  return typeof text === 'string' && /^https?:/.test(text) ? new URL(text).host : text;
}

function inCell(value: unknown): Value {
  if (Array.isArray(value)) return value.join(' ');
  if (isTime(value)) return value.replace(/\.\d+/, '');
  if (typeof value !== 'object' || value === null) return value as Value;
  return Object.entries(value)
    .map(([name, one]) => `${name}=${typeof one === 'object' ? JSON.stringify(one) : one}`)
    .join(' ');
}

const colours = { good: 'green', warn: 'yellow', bad: 'red', ok: 'green', fail: 'red' } as const;
type Coloured = keyof typeof colours;

/** Writes the parts of an answer, with a line between them. @param width of a terminal, which tables are cut to fit; a pipe gets all */
export const written = (parts: readonly Part[], width?: number): string =>
  parts.map((part) => writtenPart(part, width)).join('\n\n');

function writtenPart(part: Part, width?: number): string {
  if (typeof part === 'string') return part;
  if ('lead' in part) return `${styleText(colours[part.tone], part.lead)} ${part.text}`;
  if ('facts' in part) return `${part.title ? `${part.title}\n` : ''}${columns(givenFacts(part.facts))}`;
  const { head, rows, none, isCut } = part;
  if (rows.length === 0) return none;
  const lines = columns([head, ...rows], isCut ? width : undefined);
  if (head[0] !== '' && head[0] !== 'VERDICT') return lines;
  return lines.replace(/^(ok|warn|fail)\b/gm, (level) => styleText(colours[level as Coloured], level));
}

export const sentence = (text: string): string => `${capital(text)}${text.endsWith('.') ? '' : '.'}`;

export const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

export const givenFacts = (of: Readonly<Record<string, Value>>): [string, Value][] =>
  Object.entries(of).filter(([, value]) => value !== undefined && value !== null && value !== '');

/** No column of a terminal is cut to less. */
const leastWidth = 8;

function columns(rows: readonly (readonly Value[])[], width = Number.POSITIVE_INFINITY): string {
  const texts = rows.map((row) => row.map(printable));
  const widen = (most: number[], row: string[]) =>
    row.map((text, i) => Math.max(most[i] ?? 0, widthOf(text)));
  const widths = texts.reduce(widen, []);
  // The widest columns give way.
  for (let over = widths.reduce((sum, one) => sum + one + 2, -2) - width; over > 0; over--) {
    const widest = Math.max(...widths);
    if (widest > leastWidth) widths[widths.indexOf(widest)] = widest - 1;
  }
  const padded = (text: string, i: number) => {
    const shown = cutTo(text, widths[i] ?? 0);
    return shown + ' '.repeat((widths[i] ?? 0) - widthOf(shown));
  };
  return texts.map((row) => row.map(padded).join('  ').trimEnd()).join('\n');
}

function cutTo(text: string, width: number): string {
  if (widthOf(text) <= width) return text;
  const kept = [...text].slice(0, width - 1);
  while (widthOf(kept.join('')) >= width) kept.pop();
  return `${kept.join('')}…`;
}

/** Characters of East Asia and emoji take two columns of a terminal, combining characters none. */
function widthOf(text: string): number {
  if (/^[ -~]*$/.test(text)) return text.length;
  const wide =
    /(?![\uff61-\uff9f])[\p{sc=Han}\p{sc=Hira}\p{sc=Kana}\p{sc=Hang}\u3000-\u303e\uff01-\uff60]|\p{Emoji_Presentation}/gu;
  return [...text.replaceAll(/[\p{M}\p{Join_C}]/gu, '').replaceAll(wide, '  ')].length;
}

/**
 * Replaces control and format characters, so that text of a receiver or a publisher cannot control an operator's
 * terminal, nor look like other text in it (U+202E turns what follows). The joiners of other scripts and of emoji stay.
 */
const printable = (value: Value): string =>
  String(value ?? '').replace(/(?!(?<=\P{ASCII})\p{Join_C})[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, '\u{fffd}');

/** The groups of forms at the desk, in their order. What cannot be undone stands apart, and is typed out. */
export const formGroups = ['Delivery', 'Receiver', 'URL', 'Bounds', 'Sites', 'Access', 'Delete'] as const;
export type Group = (typeof formGroups)[number];
