/**
 * `npm run bench`: measures throughput, latency, CPU time and memory of the service, and accounts for every event.
 * Method: docs/benchmarks.md.
 */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Command } from 'commander';
import { neighboursCommand } from './neighbours/neighbours.js';
import { pidOption, positive } from './optionValues.js';
import type { Pids } from './processUsage.js';
import { markdown, type Report } from './report.js';
import { beginRunRecord, resultsFolder } from './runRecord.js';
import { runScenario, type Scenario, scenarios } from './runScenario.js';
import { shapesCommand } from './shapesCommand.js';
import { startTheatre } from './theatre.js';

const names = scenarios.map((s) => s.name);

const program = new Command('bench')
  .description(`Measures the service.\nScenarios: ${names.join(', ')}; all of them if none is named.`)
  .argument('[scenarios...]')
  .option('--duration <seconds>', 'of one round', positive, 10)
  .option('--warm-up <seconds>', 'before each round', positive, 2)
  .option('--rounds <n>', 'of each scenario', positive, 3)
  .option('--endpoints <n>', 'clients, each with an endpoint', positive)
  .option('--batch <n>', 'events in a request', positive)
  .option('--concurrency <n>', 'requests at any time', positive)
  .option('--rate <n>', 'requests per second, whatever the answers do', positive)
  .option('--split', 'API and worker as two processes')
  .option(
    '--apis <n>',
    'processes that answer requests, in turn: with --split APIs, else of both in one',
    positive,
    1,
  )
  .option('--workers <n>', 'with --split: how many workers', positive, 1)
  .option('--profile', 'CPU profiles of the service beside the results')
  .option('--pid <name=pid>', 'count this process too (of a server that was given)', pidOption, {})
  .option('--out <folder>', 'for results.json and results.md')
  .enablePositionalOptions()
  .addCommand(shapesCommand())
  .addCommand(neighboursCommand())
  .action(run);

await program.parseAsync();

interface Options {
  duration: number;
  warmUp: number;
  rounds: number;
  endpoints?: number;
  batch?: number;
  concurrency?: number;
  rate?: number;
  split?: true;
  apis: number;
  workers: number;
  profile?: true;
  pid: Pids;
  out?: string;
}

async function run(named: string[], options: Options): Promise<void> {
  const report: Report = { ...beginRunRecord(), results: [] };
  const out = await resultsFolder(report, options.out);
  const chosen = choose(named).map((scenario) => changed(scenario, options));
  const theatre = await startTheatre({
    split: options.split ?? false,
    apis: options.apis,
    workers: options.workers,
    profileDir: options.profile ? out : undefined,
    givenPids: options.pid,
  });
  const stopped = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => stopped.abort());
  try {
    for (const scenario of chosen) {
      if (stopped.signal.aborted) break;
      process.stderr.write(`${scenario.name} `);
      const result = await runScenario(scenario, theatre, {
        rounds: options.rounds,
        warmUpMs: options.warmUp * 1000,
        durationMs: options.duration * 1000,
        stopped: stopped.signal,
        onRound: () => process.stderr.write('.'),
      });
      process.stderr.write('\n');
      if (result.rounds.length > 0) report.results.push(result);
    }
  } finally {
    await theatre.stop();
  }
  await writeFile(join(out, 'results.json'), `${JSON.stringify(report, null, 1)}\n`);
  await writeFile(join(out, 'results.md'), `${markdown(report)}\n`);
  console.log(`${markdown(report)}\n\nResults: ${out}`);
}

function choose(named: readonly string[]): Scenario[] {
  if (named.length === 0) return [...scenarios];
  return named.flatMap((name) => {
    const scenario = scenarios.find((s) => s.name === name);
    if (!scenario) program.error(`unknown scenario ${name}; there are: ${names.join(', ')}`, { exitCode: 2 });
    return scenario ? [scenario] : [];
  });
}

function changed(scenario: Scenario, options: Options): Scenario {
  if (scenario.kind !== 'events') return scenario;
  return {
    ...scenario,
    endpoints: options.endpoints ?? scenario.endpoints,
    batchSize: options.batch ?? scenario.batchSize,
    pace: options.rate
      ? { kind: 'rate', requestsPerSecond: options.rate }
      : options.concurrency
        ? { kind: 'concurrency', publishers: options.concurrency }
        : scenario.pace,
  };
}
