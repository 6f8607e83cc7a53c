import { readFileSync } from 'node:fs';
import { join } from 'node:path';

export const root = join(import.meta.dirname, '../..');

export function readPage(path: string): string {
  return readFileSync(join(root, path), 'utf8');
}

/** The text of a page below one of its headings, up to the next heading of any depth. */
export function section(page: string, heading: string): string {
  const [, below] = page.split(new RegExp(`^#+ ${heading}\n`, 'm'));
  if (below === undefined) throw new Error(`no heading "${heading}"`);
  return below.split(/^#+ /m)[0] ?? '';
}

/** The cells of each row of the tables in a text, without heads and rules. `\|` is a bar within a cell. */
export function rowsOf(text: string): string[][] {
  const lines = text.split('\n').filter((line) => line.startsWith('|'));
  const isRule = (line: string | undefined) => line !== undefined && /^\|[ :|-]+\|$/.test(line);
  return lines
    .filter((line, at) => !isRule(line) && !isRule(lines[at + 1]))
    .map((line) =>
      line
        .slice(1, -1)
        .split(/(?<!\\)\|/)
        .map((cell) => cell.trim().replaceAll('\\|', '|')),
    );
}

/** Returns the text between the backticks of a cell that has nothing else; undefined for any other cell. */
export function codeOf(cell: string | undefined): string | undefined {
  return cell?.match(/^`([^`]+)`$/)?.[1];
}
