import { cpuMsPerUnit, type Round } from './measure.js';
import { spread } from './percentile.js';
import { type RunRecord, runRecordLine } from './runRecord.js';

/** All rounds of one scenario; `beside` is the yardstick, measured in turn with it. */
export interface ScenarioResult {
  name: string;
  what: string;
  rounds: Round[];
  beside?: { what: string; rounds: Round[] };
}

export interface Report extends RunRecord {
  results: ScenarioResult[];
}

/** Writes the report as Markdown: minimum, median and maximum over the rounds. */
export function markdown(report: Report): string {
  return [`${runRecordLine(report)} ${roundsNote}`, ...resultTables(report.results)].join('\n\n');
}

export const roundsNote = 'Figures are minimum / **median** / maximum over the rounds; times in ms.';

/** Writes the tables: the figures, CPU time and memory by process, and failures. */
export function resultTables(results: readonly ScenarioResult[]): string[] {
  const events = results.filter((r) => r.rounds.some((round) => round.delivery));
  const requests = results.filter((r) => !r.rounds.some((round) => round.delivery));
  const all = [...events, ...requests];
  return [
    ...(events.length ? [deliveryTable(events)] : []),
    ...(requests.length ? [requestTable(requests)] : []),
    ...(all.length ? [cpuTable(all), memoryTable(all), wrongTable(all)] : []),
  ];
}

function deliveryTable(results: readonly ScenarioResult[]): string {
  return table(
    [
      'scenario',
      'what',
      'delivered/s',
      'p50',
      'p99',
      'max',
      'CPU ms per notification',
      'accept p50',
      'accept p99',
    ],
    results.map((r) => [
      r.name,
      r.what,
      over(r.rounds, (x) => x.delivery?.perSecond),
      over(r.rounds, (x) => x.delivery?.latency.p50),
      over(r.rounds, (x) => x.delivery?.latency.p99),
      over(r.rounds, (x) => x.delivery?.latency.max),
      over(r.rounds, (x) => cpuMsPerUnit(x)),
      over(r.rounds, (x) => x.answer.p50),
      over(r.rounds, (x) => x.answer.p99),
    ]),
  );
}

function requestTable(results: readonly ScenarioResult[]): string {
  const rows = results.flatMap((r) => {
    const row = (name: string, what: string, rounds: readonly Round[], ratio: string) => [
      name,
      what,
      over(rounds, (x) => x.requestsPerSecond),
      over(rounds, (x) => x.answer.p50),
      over(rounds, (x) => x.answer.p99),
      over(rounds, (x) => cpuMsPerUnit(x)),
      ratio,
    ];
    const { beside } = r;
    if (!beside) return [row(r.name, r.what, r.rounds, '')];
    const median = (rounds: readonly Round[], value: (x: Round) => number) =>
      spread(rounds.map(value)).median;
    const throughput =
      median(r.rounds, (x) => x.requestsPerSecond) / median(beside.rounds, (x) => x.requestsPerSecond);
    const p99 = median(r.rounds, (x) => x.answer.p99) / median(beside.rounds, (x) => x.answer.p99);
    return [
      row(
        r.name,
        r.what,
        r.rounds,
        `${throughput.toFixed(2)} of the throughput, ${p99.toFixed(2)} of the p99`,
      ),
      row(`${r.name}, beside`, beside.what, beside.rounds, '1'),
    ];
  });
  return table(
    ['scenario', 'what', 'requests/s', 'p50', 'p99', 'CPU ms per request', 'against the yardstick'],
    rows,
  );
}

function cpuTable(results: readonly ScenarioResult[]): string {
  const names = processNames(results);
  return table(
    ['CPU ms per unit (share of a core)', ...names],
    results.map((r) => [
      r.name,
      ...names.map((name) => {
        const ms = spread(r.rounds.map((x) => x.cpuMsPerUnit[name] ?? Number.NaN)).median;
        const share = spread(r.rounds.map((x) => x.cpuShare[name] ?? Number.NaN)).median;
        return Number.isFinite(ms) ? `${ms.toFixed(2)} (${Math.round(share * 100)} %)` : '';
      }),
    ]),
  );
}

function memoryTable(results: readonly ScenarioResult[]): string {
  const names = processNames(results);
  return table(
    ['resident MB at the end', ...names],
    results.map((r) => [r.name, ...names.map((name) => over(r.rounds, (x) => x.rssMb[name]))]),
  );
}

/** Writes counts that should be 0; the last column has the first unexpected answer. */
function wrongTable(results: readonly ScenarioResult[]): string {
  const sum = (rounds: readonly Round[], value: (x: Round) => number | undefined) =>
    String(rounds.reduce((n, x) => n + (value(x) ?? 0), 0));
  return table(
    [
      'all rounds',
      'missing',
      'duplicates',
      'superseded',
      'unannounced',
      'refusals',
      'given up',
      'rounds begun unsettled',
      'oddity',
    ],
    results.map((r) => [
      r.name,
      sum(r.rounds, (x) => x.delivery?.accounting.missing),
      sum(r.rounds, (x) => x.delivery?.accounting.duplicates),
      sum(r.rounds, (x) => x.delivery?.accounting.superseded),
      sum(r.rounds, (x) => x.delivery?.accounting.unannounced),
      refusals(r.rounds),
      sum(r.rounds, (x) => x.givenUp),
      sum(r.rounds, (x) => (x.unsettled ? 1 : 0)),
      (r.rounds.find((x) => x.oddity)?.oddity ?? '').replaceAll('|', '\\|').replaceAll('\n', ' '),
    ]),
  );
}

function refusals(rounds: readonly Round[]): string {
  const sums = new Map<string, number>();
  for (const round of rounds) {
    for (const [what, n] of Object.entries(round.refusals)) sums.set(what, (sums.get(what) ?? 0) + n);
  }
  return [...sums].map(([what, n]) => `${n} × ${what}`).join(', ') || '0';
}

function processNames(results: readonly ScenarioResult[]): string[] {
  return [...new Set(results.flatMap((r) => r.rounds.flatMap((x) => Object.keys(x.cpuMsPerUnit))))];
}

function over(rounds: readonly Round[], value: (round: Round) => number | undefined): string {
  const { min, median, max } = spread(rounds.map((round) => value(round) ?? Number.NaN));
  if (!Number.isFinite(median)) return '';
  return rounds.length === 1
    ? `**${short(median)}**`
    : `${short(min)} / **${short(median)}** / ${short(max)}`;
}

export function short(value: number): string {
  if (value >= 100) return Math.round(value).toLocaleString('en');
  return value >= 10 ? value.toFixed(1) : value.toFixed(2);
}

export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const row = (cells: readonly string[]) => `| ${cells.join(' | ')} |`;
  return [row(head), row(head.map(() => '---')), ...rows.map(row)].join('\n');
}
