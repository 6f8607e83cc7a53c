import type { Cell, Table } from './study.js';

/** A study's table for people; numbers with three digits or whole. */
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
