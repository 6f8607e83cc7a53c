/**
 * `npm run bench`: measures throughput, latency, CPU time and memory of the service, and accounts for every event.
 * Method: docs/benchmarks.md.
 */
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Command, InvalidArgumentError } from 'commander';
import { projectDir } from '../src/operator/npmStart.js';
import { contestCommand } from './contest/command.js';
import { growthCommand } from './growth.js';
import { callers, describe, type Load, loads, perSecond } from './loads.js';
import { measure, type Round } from './measure.js';
import { neighboursCommand } from './neighbours.js';
import type { Pids } from './processUsage.js';
import { beginRunRecord, type LoadResult, markdown } from './report.js';
import { makeKnown, startTheatre, type Target, type Theatre } from './theatre.js';

interface Options {
  duration: number;
  warmUp: number;
  rounds: number;
  floor?: true;
  clients?: number;
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

const list = loads.map((load) => `  ${load.name}: ${describe(load)}`).join('\n');
const program = new Command('bench')
  .description(`Measures the service under loads, all of them if none is named:\n${list}`)
  .argument('[loads...]')
  .option('--floor', 'measures the floor in turn with the service')
  .option('--duration <seconds>', 'of one round', positive, 10)
  .option('--warm-up <seconds>', 'before each round; less than 8 measures the compiler', positive, 8)
  .option('--rounds <n>', 'of each load', positive, 3)
  .option('--clients <n>', 'clients, each with an endpoint', positive)
  .option('--batch <n>', 'events in a request', positive)
  .option('--concurrency <n>', 'requests at any time', positive)
  .option('--rate <n>', 'requests per second, whatever the answers do', positive)
  .option('--split', 'API and worker as two processes')
  .option(
    '--apis <n>',
    'processes that answer requests in turn: APIs with --split, else of both in one',
    positive,
    1,
  )
  .option('--workers <n>', 'with --split: how many workers', positive, 1)
  .option('--profile', 'CPU profiles of the service beside the results')
  .option('--pid <name=pid>', 'count this process too (of a server that was given)', pidOption, {})
  .option('--out <folder>', 'for results.json and results.md')
  .enablePositionalOptions()
  .addCommand(neighboursCommand(positive))
  .addCommand(growthCommand(positive))
  .addCommand(contestCommand(positive))
  .action(run);

await program.parseAsync();

async function run(named: string[], options: Options): Promise<void> {
  const chosen = choose(named).map((load) => changed(load, options));
  const record = beginRunRecord();
  const out = options.out ?? join(projectDir, 'bench/results', record.startedAt.replaceAll(/[:.]/g, '-'));
  await mkdir(out, { recursive: true });
  const theatre = await startTheatre({
    floor: options.floor,
    split: options.split ?? false,
    apis: options.apis,
    workers: options.workers,
    profileDir: options.profile ? out : undefined,
    givenPids: options.pid,
  });
  const stopped = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => stopped.abort());
  const results: LoadResult[] = [];
  try {
    for (const load of chosen) {
      if (stopped.signal.aborted) break;
      process.stderr.write(`${load.name} `);
      const result = await runLoad(load, theatre, options, stopped.signal);
      process.stderr.write('\n');
      if (result.rounds.length > 0) results.push(result);
    }
  } finally {
    await theatre.stop();
  }
  const text = markdown(record, results);
  await writeFile(join(out, 'results.json'), `${JSON.stringify({ ...record, results }, null, 1)}\n`);
  await writeFile(join(out, 'results.md'), `${text}\n`);
  console.log(`${text}\n\nResults: ${out}`);
}

/** Measures a load of the service, and in turn with it the floor's, if the theatre has one. After an abort no further round begins. */
async function runLoad(
  load: Load,
  { service, floor, receiver }: Theatre,
  { duration, warmUp, rounds: wanted }: Options,
  stopped: AbortSignal,
): Promise<LoadResult> {
  receiver.send({ kind: 'behave', behaviour: load.receiver ?? {} });
  const { clients = 50, isKnown, total } = load;
  // A fixed number of events takes as long as it takes, and is too short to be its own warm-up.
  const [warmUpMs, durationMs] = total === undefined ? [warmUp * 1000, duration * 1000] : [0, 300_000];
  const round = ({ publishingTo, pids }: Target, tokens: string[], what = load) =>
    measure(what, { running: publishingTo(tokens, what), pids, receiver }, { warmUpMs, durationMs });
  const tokens = await service.newClients(clients);
  if (isKnown) await makeKnown(service, tokens);
  if (total !== undefined) await round(service, tokens);
  const floors: Round[] = [];
  const rounds: Round[] = [];
  const { isKnown: _, ...unknown } = load;
  while (rounds.length < wanted && !stopped.aborted) {
    if (floor) floors.push(await round(floor, await floor.newClients(clients), unknown));
    rounds.push(await round(service, tokens));
    process.stderr.write('.');
  }
  return { name: load.name, what: describe(load), rounds, ...(floor && { floor: floors }) };
}

function choose(named: readonly string[]): readonly Load[] {
  const unknown = named.find((name) => !loads.some((load) => load.name === name));
  const names = loads.map(({ name }) => name).join(', ');
  if (unknown !== undefined) program.error(`unknown load ${unknown}; there are: ${names}`, { exitCode: 2 });
  return named.length === 0 ? loads : loads.filter(({ name }) => named.includes(name));
}

function changed(load: Load, { clients, batch, concurrency, rate }: Options): Load {
  return {
    ...load,
    ...(clients && { clients }),
    ...(batch && { batchSize: batch }),
    ...(concurrency && { pace: callers(concurrency) }),
    ...(rate && { pace: perSecond(rate) }),
  };
}

/** @throws InvalidArgumentError */
function positive(text: string): number {
  const value = Number(text);
  if (!(value > 0)) throw new InvalidArgumentError('must be a positive number');
  return value;
}

/** Adds a `<name>=<pid>` to those given before. @throws InvalidArgumentError */
function pidOption(text: string, before: Pids): Pids {
  const [name, pid] = text.split('=');
  if (!name || !Number.isInteger(Number(pid))) throw new InvalidArgumentError('must be <name>=<pid>');
  return { ...before, [name]: Number(pid) };
}
