/**
 * The one table of all that was broken: printed at the end of the run, with FAULT_REPORT=1 also docs/reliability.md.
 * FAULT_KEEP names a file to keep the run in, FAULT_WITH the files (with commas) of runs whose rows come first.
 */
import { readFile, writeFile } from 'node:fs/promises';
import { writeReport } from './writeReport.js';

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

/** The findings of one run. */
interface Run {
  command: string;
  rows: Row[];
  figures: string[];
}

after('the table', async () => {
  if (rows.length === 0) return;
  const took = `${command()} took ${((Date.now() - from) / 60_000).toFixed(1)} minutes.`;
  const run: Run = { command: command(), rows, figures: [...figures, took] };
  if (process.env.FAULT_KEEP) await writeFile(process.env.FAULT_KEEP, JSON.stringify(run));
  const runs = [...(await keptRuns()), run];
  const text = [
    table(runs.flatMap((one) => one.rows)),
    '',
    ...runs.flatMap((one) => one.figures.map((figure) => `- ${figure}`)),
  ].join('\n');
  console.log(`\n${text}\n`);
  if (process.env.FAULT_REPORT === '1')
    await writeReport(
      runs.map((one) => one.command),
      text,
    );
});

async function keptRuns(): Promise<Run[]> {
  const files = (process.env.FAULT_WITH ?? '').split(',').filter((file) => file !== '');
  return Promise.all(files.map(async (file) => JSON.parse(await readFile(file, 'utf8')) as Run));
}

/** How to make this run again. */
function command(): string {
  const settings = Object.entries(process.env).filter(([name]) =>
    /^FAULT_(FORM|KILLS|OUTAGE_SECONDS|SOAK_MINUTES|OLD_DIST)$/.test(name),
  );
  const files = process.argv.filter((argument) => argument.endsWith('.test.ts') && !argument.includes('*'));
  return [
    ...settings.map(([name, value]) => `${name}=${value}`),
    'npm run test:faults',
    ...(files.length > 0 ? ['--', ...files] : []),
  ].join(' ');
}

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
export function table(all: readonly Row[]): string {
  const sum = (of: (row: Row) => number) => all.reduce((total, row) => total + of(row), 0);
  const most = (of: (row: Row) => number) => Math.max(0, ...all.map(of));
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
    ...[...all, total].map((row) => columns.map(({ cell }) => String(cell(row)))),
  ]
    .map((line) => `| ${line.join(' | ')} |`)
    .join('\n');
}
