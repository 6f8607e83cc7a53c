import type { Cell, Table } from './study.js';

/** Writes a study's table; numbers have three digits or are whole. */
export function tableMarkdown({ title, head, rows }: Table): string {
  const row = (cells: readonly Cell[]) => `| ${cells.map(cell).join(' | ')} |`;
  return [`**${title}**`, '', row(head), row(head.map(() => '---')), ...rows.map(row)].join('\n');
}

function cell(value: Cell): string {
  if (typeof value === 'string') return value;
  if (!Number.isFinite(value)) return '';
  if (Number.isInteger(value)) return value.toLocaleString('en');
  if (Math.abs(value) >= 100) return Math.round(value).toLocaleString('en');
  return value.toFixed(Math.abs(value) >= 10 ? 1 : 2);
}
