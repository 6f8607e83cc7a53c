import { readFileSync } from 'node:fs';
import { availableParallelism, loadavg, release, totalmem } from 'node:os';
import { type Round, sumOfService } from './measure.js';

/** The rounds of one load, and of the floor in turn with them. */
export interface LoadResult {
  name: string;
  what: string;
  rounds: Round[];
  floor?: Round[];
}

/** Time, command and machine of a run. */
export interface RunRecord {
  startedAt: string;
  command: string;
  /** Cores, memory, kernel, Node, and the load average of the minute before the run, caused by other processes. */
  machine: string;
}

export function beginRunRecord(): RunRecord {
  return {
    startedAt: new Date().toISOString(),
    command: ['npm run bench --', ...process.argv.slice(2)].join(' '),
    machine: describeMachine(),
  };
}

function describeMachine(): string {
  const cpu = /^model name\s*:\s*(.+)$/m.exec(readFileSync('/proc/cpuinfo', 'utf8'))?.[1] ?? 'unknown';
  const memoryGb = Math.round(totalmem() / 2 ** 30);
  const loadBefore = (loadavg()[0] ?? 0).toFixed(2);
  return `${availableParallelism()} cores (${cpu}), ${memoryGb} GB, Linux ${release()}, Node ${process.version}; load average of the minute before ${loadBefore}`;
}

/** Writes a run as Markdown: minimum, median and maximum over the rounds. */
export function markdown(record: RunRecord, results: readonly LoadResult[]): string {
  const note = 'Figures are minimum / **median** / maximum over the rounds; times in ms.';
  const tables = results.length === 0 ? [] : [figures(results), usages(results), wrong(results)];
  const { command, startedAt, machine } = record;
  return [`\`${command}\`, ${startedAt}: ${machine}. ${note}`, ...tables].join('\n\n');
}

type Figure = (round: Round) => number;

/** The columns of the first table. */
const columns: Readonly<Record<string, Figure>> = {
  'delivered/s': (x) => x.deliveredPerSecond,
  p50: (x) => x.delivery.p50,
  p99: (x) => x.delivery.p99,
  'CPU ms': (x) => sumOfService(x.cpuMsPerUnit),
  cores: (x) => sumOfService(x.cpuShare),
  'answered/s': (x) => x.answeredPerSecond,
  'answer p50': (x) => x.answer.p50,
  'answer p99': (x) => x.answer.p99,
  'until all arrived, s': (x) => x.secondsUntilAllArrived,
};

/** Writes each load, below it the floor's figures, and the ratios of the two, round by round. */
function figures(results: readonly LoadResult[]): string {
  const rows = results.flatMap(({ name, what, rounds, floor }) => {
    const row = (label: string, about: string, cells: (figure: Figure) => string) => [
      label,
      about,
      ...Object.values(columns).map(cells),
    ];
    const own = row(name, what, (figure) => over(rounds.map(figure)));
    if (!floor) return [own];
    const ratios = (figure: Figure) =>
      over(rounds.map((round, i) => figure(round) / ratioOf(floor[i], figure)));
    return [own, row('', 'floor', (figure) => over(floor.map(figure))), row('', 'of the floor', ratios)];
  });
  return table(['load', 'what', ...Object.keys(columns)], rows);
}

const ratioOf = (round: Round | undefined, figure: Figure) => (round ? figure(round) : Number.NaN);

/** Writes CPU time and memory by process. */
function usages(results: readonly LoadResult[]): string {
  const names = [...new Set(results.flatMap((r) => r.rounds.flatMap((x) => Object.keys(x.cpuMsPerUnit))))];
  const cell = (rounds: readonly Round[], name: string) => {
    const [ms = Number.NaN, share = 0, rssMb = 0] = (['cpuMsPerUnit', 'cpuShare', 'rssMb'] as const).map(
      (of) => spread(rounds.map((x) => x[of][name] ?? Number.NaN)).median,
    );
    return Number.isFinite(ms) ? `${ms.toFixed(2)} (${Math.round(share * 100)} %, ${short(rssMb)} MB)` : '';
  };
  return table(
    ['CPU ms a notification (share of a core, resident memory at the end)', ...names],
    results.map(({ name, rounds }) => [name, ...names.map((of) => cell(rounds, of))]),
  );
}

/** Writes counts that should be 0; the last column has the first unexpected answer. */
function wrong(results: readonly LoadResult[]): string {
  const counts: Readonly<Record<string, (round: Round) => number>> = {
    lost: (x) => x.lost,
    twice: (x) => x.twice,
    'never acknowledged': (x) => x.givenUp,
    'rounds begun unsettled': (x) => (x.unsettled ? 1 : 0),
  };
  return table(
    ['all rounds', ...Object.keys(counts), 'refusals', 'oddity'],
    results.map(({ name, rounds }) => [
      name,
      ...Object.values(counts).map((count) => String(rounds.reduce((n, x) => n + count(x), 0))),
      refusals(rounds),
      (rounds.find((x) => x.oddity)?.oddity ?? '').replaceAll('|', '\\|').replaceAll('\n', ' '),
    ]),
  );
}

function refusals(rounds: readonly Round[]): string {
  const sums = new Map<string, number>();
  for (const [what, n] of rounds.flatMap((round) => Object.entries(round.refusals))) {
    sums.set(what, (sums.get(what) ?? 0) + n);
  }
  return [...sums].map(([what, n]) => `${n} × ${what}`).join(', ') || '0';
}

/** Writes minimum, median and maximum of a figure over the rounds; nothing if there is none. */
export function over(values: readonly number[]): string {
  const { min, median, max } = spread(values);
  if (!Number.isFinite(median)) return '';
  return values.length === 1 ? short(median) : `${short(min)} / **${short(median)}** / ${short(max)}`;
}

/** Summarizes one figure over several rounds. */
export function spread(values: readonly number[]): { min: number; median: number; max: number } {
  const sorted = values.filter(Number.isFinite).sort((a, b) => a - b);
  const at = (share: number) => sorted[Math.floor(share)] ?? Number.NaN;
  const middle = (sorted.length - 1) / 2;
  return {
    min: at(0),
    median: (at(Math.floor(middle)) + at(Math.ceil(middle))) / 2,
    max: at(sorted.length - 1),
  };
}

export function short(value: number): string {
  if (value >= 100) return Math.round(value).toLocaleString('en');
  return value >= 10 ? value.toFixed(1) : value.toFixed(2);
}

export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const row = (cells: readonly string[]) => `| ${cells.join(' | ')} |`;
  return [row(head), row(head.map(() => '---')), ...rows.map(row)].join('\n');
}
