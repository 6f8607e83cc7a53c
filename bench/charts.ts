import { lineChart } from './lineChart.js';
import type { Round } from './measure.js';
import { spread } from './percentile.js';
import type { Report, ScenarioResult } from './report.js';

/** Draws the pictures of a report: latency over time for each scenario, throughput over load for the curve. */
export function charts(report: Report): [file: string, svg: string][] {
  const latencies = report.results.map((result): [string, string] => [
    `${result.name}-latency.svg`,
    latencyOverTime(result),
  ]);
  const steps = report.results.filter((r) => r.name.startsWith('curve-'));
  return steps.length < 2
    ? latencies
    : [
        ...latencies,
        ['throughput.svg', throughputOverLoad(steps)],
        ['load-latency.svg', latencyOverLoad(steps)],
      ];
}

/** Draws all rounds, one after the other. */
function latencyOverTime(result: ScenarioResult): string {
  const seconds = result.rounds.flatMap((round) => round.timeline);
  return lineChart({
    title: `${result.name}: ${result.what}`,
    xLabel: 'measured second (rounds one after the other)',
    yLabel: result.rounds[0]?.delivery ? 'accept to arrival, ms' : 'request to answer, ms',
    series: (['p50', 'p99'] as const).map((name) => ({
      name,
      points: seconds.map((second, x) => ({ x, y: second[name] })),
    })),
  });
}

function throughputOverLoad(steps: readonly ScenarioResult[]): string {
  return lineChart({
    title: 'Throughput over load',
    xLabel: 'publishers at a time',
    yLabel: 'notifications/s',
    series: [overLoad('delivered/s', steps, (round) => round.delivery?.perSecond)],
  });
}

function latencyOverLoad(steps: readonly ScenarioResult[]): string {
  return lineChart({
    title: 'Latency over load',
    xLabel: 'publishers at a time',
    yLabel: 'accept to arrival, ms',
    series: [
      overLoad('p50', steps, (round) => round.delivery?.latency.p50),
      overLoad('p99', steps, (round) => round.delivery?.latency.p99),
    ],
  });
}

function overLoad(
  name: string,
  steps: readonly ScenarioResult[],
  value: (round: Round) => number | undefined,
) {
  return {
    name,
    points: steps.map((step) => ({
      x: Number(step.name.slice('curve-'.length)),
      y: spread(step.rounds.map((round) => value(round) ?? Number.NaN)).median,
    })),
  };
}
