export interface Row {
  fault: string;
  injected: number;
  acknowledged: number;
  delivered: number;
  superseded: number;
  lost: number;
  duplicated: number;
  longestRecoveryMs: number;
}

const headings = [
  'fault',
  'times injected',
  'acknowledged',
  'delivered',
  'superseded',
  'lost',
  'duplicated',
  'longest recovery',
];

/** The rows and their sum as a Markdown table. */
export function table(rows: readonly Row[]): string {
  const sum = (of: (row: Row) => number) => rows.reduce((total, row) => total + of(row), 0);
  const total: Row = {
    fault: '**all**',
    injected: sum((r) => r.injected),
    acknowledged: sum((r) => r.acknowledged),
    delivered: sum((r) => r.delivered),
    superseded: sum((r) => r.superseded),
    lost: sum((r) => r.lost),
    duplicated: sum((r) => r.duplicated),
    longestRecoveryMs: Math.max(0, ...rows.map((r) => r.longestRecoveryMs)),
  };
  return [headings, ['---', ...headings.slice(1).map(() => '--:')], ...[...rows, total].map(cells)]
    .map((line) => `| ${line.join(' | ')} |`)
    .join('\n');
}

function cells(row: Row): string[] {
  const { injected, acknowledged, delivered, superseded, lost, duplicated } = row;
  const numbers = [injected, acknowledged, delivered, superseded, lost, duplicated].map(String);
  return [row.fault, ...numbers, `${(row.longestRecoveryMs / 1000).toFixed(1)} s`];
}
