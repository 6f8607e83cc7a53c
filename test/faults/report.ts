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

const columns: { heading: string; cell: (row: Row) => string | number }[] = [
  { heading: 'fault', cell: (r) => r.fault },
  { heading: 'times injected', cell: (r) => r.injected },
  { heading: 'acknowledged', cell: (r) => r.acknowledged },
  { heading: 'delivered', cell: (r) => r.delivered },
  { heading: 'superseded', cell: (r) => r.superseded },
  { heading: 'tokens', cell: (r) => r.tokens },
  { heading: 'registrations', cell: (r) => r.registrations },
  { heading: 'lost', cell: (r) => r.lost },
  { heading: 'duplicated', cell: (r) => r.duplicated },
  { heading: 'longest recovery', cell: (r) => seconds(r.longestRecoveryMs) },
  { heading: '503', cell: (r) => r.refused },
  { heading: 'no answer', cell: (r) => r.withoutAnswer },
  { heading: 'slowest answer', cell: (r) => seconds(r.slowestAnswerMs) },
];

const seconds = (ms: number): string => `${(ms / 1000).toFixed(1)} s`;

/** The rows and their sum as a Markdown table. */
function table(): string {
  const sum = (of: (row: Row) => number) => rows.reduce((total, row) => total + of(row), 0);
  const most = (of: (row: Row) => number) => Math.max(0, ...rows.map(of));
  const total: Row = {
    fault: '**all**',
    injected: sum((r) => r.injected),
    acknowledged: sum((r) => r.acknowledged),
    tokens: sum((r) => r.tokens),
    registrations: sum((r) => r.registrations),
    delivered: sum((r) => r.delivered),
    superseded: sum((r) => r.superseded),
    lost: sum((r) => r.lost),
    duplicated: sum((r) => r.duplicated),
    longestRecoveryMs: most((r) => r.longestRecoveryMs),
    refused: sum((r) => r.refused),
    withoutAnswer: sum((r) => r.withoutAnswer),
    slowestAnswerMs: most((r) => r.slowestAnswerMs),
  };
  return [
    columns.map(({ heading }) => heading),
    ['---', ...columns.slice(1).map(() => '--:')],
    ...[...rows, total].map((row) => columns.map(({ cell }) => String(cell(row)))),
  ]
    .map((line) => `| ${line.join(' | ')} |`)
    .join('\n');
}
