/** The one table of all that was broken, printed at the end of the run; docs/reliability.md has that of the long form. */

export interface Row {
  fault: string;
  injected: number;
  /** Events answered `queued`. */
  acknowledged: number;
  tokens: number;
  registrations: number;
  delivered: number;
  superseded: number;
  /** Of events, tokens and registrations. */
  lost: number;
  duplicated: number;
  longestRecoveryMs: number;
  /** Events answered 503. */
  refused: number;
  withoutAnswer: number;
  slowestAnswerMs: number;
}

const rows: Row[] = [];
const figures: string[] = [];
const from = Date.now();

export function report(more: readonly Row[]): void {
  rows.push(...more);
}

/** A sentence of figures to stand below the table. */
export function reportFigure(figure: string): void {
  figures.push(figure);
}

after('the table', () => {
  if (rows.length === 0) return;
  const took = `The run took ${((Date.now() - from) / 60_000).toFixed(1)} minutes.`;
  console.log(`\n${table()}\n\n${[...figures, took].map((figure) => `- ${figure}`).join('\n')}\n`);
});

const columns: [heading: string, cell: keyof Row, unit?: 'ms'][] = [
  ['fault', 'fault'],
  ['times injected', 'injected'],
  ['acknowledged', 'acknowledged'],
  ['delivered', 'delivered'],
  ['superseded', 'superseded'],
  ['tokens', 'tokens'],
  ['registrations', 'registrations'],
  ['lost', 'lost'],
  ['duplicated', 'duplicated'],
  ['longest recovery', 'longestRecoveryMs', 'ms'],
  ['503', 'refused'],
  ['no answer', 'withoutAnswer'],
  ['slowest answer', 'slowestAnswerMs', 'ms'],
];

/** The rows, then their sums and longest times, as a Markdown table. */
function table(): string {
  const cell = (row: Row, name: keyof Row, unit?: 'ms') =>
    unit ? `${(Number(row[name]) / 1000).toFixed(1)} s` : String(row[name]);
  const all = columns.map(([, name, unit]) => {
    if (name === 'fault') return '**all**';
    const values = rows.map((row) => row[name]);
    if (unit) return `${(Math.max(...values) / 1000).toFixed(1)} s`;
    return String(values.reduce((total, value) => total + value, 0));
  });
  return [
    columns.map(([heading]) => heading),
    ['---', ...columns.slice(1).map(() => '--:')],
    ...rows.map((row) => columns.map(([, name, unit]) => cell(row, name, unit))),
    all,
  ]
    .map((line) => `| ${line.join(' | ')} |`)
    .join('\n');
}
