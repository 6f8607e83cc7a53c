import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Command } from 'commander';
import { messageOf } from '../src/log.js';
import { pidOption, positive } from './optionValues.js';
import type { Pids } from './processUsage.js';
import { resultTables, roundsNote, type ScenarioResult } from './report.js';
import { beginRunRecord, resultsFolder, runRecordLine } from './runRecord.js';
import { shapes } from './shapes/all.js';
import { isReached, type Row, rowsMarkdown } from './shapes/row.js';
import type { Shape } from './shapes/shape.js';
import { type ShapeOptions, shapeStage } from './shapes/shapeStage.js';
import { serviceIn, startFloor } from './shapes/target.js';
import { stopList } from './stopList.js';
import { startTheatre } from './theatre.js';

interface Options {
  duration: number;
  warmUp: number;
  rounds: number;
  profile?: true;
  pid: Pids;
  out?: string;
}

/** `npm run bench -- shapes [names...]`: measures shapes of load beside the floor, and says whether they reach their goals. */
export function shapesCommand(): Command {
  const list = shapes.map(({ name, about }) => `  ${name}: ${about}`).join('\n');
  return new Command('shapes')
    .description(`Measures every shape of load beside the floor.\n${list}`)
    .argument('[names...]', 'all when none is named')
    .option('--duration <seconds>', 'of one round', positive, 10)
    .option('--warm-up <seconds>', 'before each round; less measures the compiler', positive, 8)
    .option('--rounds <n>', 'of each side, in turns', positive, 3)
    .option('--profile', 'CPU profiles of the service and the floor beside the results')
    .option('--pid <name=pid>', 'count this process too (of a server that was given)', pidOption, {})
    .option('--out <folder>', 'for results.json and results.md')
    .action((names: string[], options: Options, command: Command) => run(choose(names, command), options));
}

function choose(names: readonly string[], command: Command): readonly Shape[] {
  const unknown = names.find((name) => !shapes.some((shape) => shape.name === name));
  if (unknown !== undefined) {
    const known = shapes.map((shape) => shape.name).join(', ');
    command.error(`unknown shape ${unknown}; there are: ${known}`, { exitCode: 2 });
  }
  return names.length === 0 ? shapes : shapes.filter((shape) => names.includes(shape.name));
}

async function run(chosen: readonly Shape[], options: Options): Promise<void> {
  const record = beginRunRecord();
  const out = await resultsFolder(record, options.out);
  const { rows, results, failures } = await measureShapes(chosen, options, out);
  const figures = [
    `${runRecordLine(record)} ${roundsNote}`,
    rowsMarkdown(rows),
    ...failures.map((failure) => `Failed: ${failure}`),
  ].join('\n\n');
  const judged = rows.map((row) => ({ ...row, reached: isReached(row) }));
  const json = { ...record, rows: judged, results, failures };
  await writeFile(join(out, 'results.json'), `${JSON.stringify(json, null, 1)}\n`);
  await writeFile(join(out, 'results.md'), `${[figures, ...resultTables(results)].join('\n\n')}\n`);
  console.log(`${figures}\n\nResults: ${out}`);
  if (failures.length > 0) process.exitCode = 1;
}

interface Measured {
  rows: (Row & { shape: string })[];
  results: ScenarioResult[];
  failures: string[];
}

/** Measures one shape after the other. A failure is recorded and does not stop the others. */
async function measureShapes(chosen: readonly Shape[], options: Options, out: string): Promise<Measured> {
  const measured: Measured = { rows: [], results: [], failures: [] };
  const stopped = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => stopped.abort());
  const profileDir = options.profile ? out : undefined;
  const shapeOptions: ShapeOptions = {
    rounds: options.rounds,
    warmUpMs: options.warmUp * 1000,
    durationMs: options.duration * 1000,
    stopped: stopped.signal,
    theatre: { split: false, givenPids: options.pid, profileDir },
  };
  const started = stopList();
  try {
    const theatre = await startTheatre(shapeOptions.theatre);
    started.add(theatre);
    const floor = await startFloor(theatre, profileDir);
    started.add(floor);
    for (const shape of chosen) {
      if (stopped.signal.aborted) break;
      process.stderr.write(`${shape.name} `);
      const besides = stopList();
      const targets = { service: serviceIn(theatre), floor };
      const stage = shapeStage(shape.name, targets, shapeOptions, measured.results, besides);
      try {
        for (const row of await shape.run(stage)) {
          // A stopped run has rows without values.
          if (row.values.length > 0) measured.rows.push({ shape: shape.name, ...row });
        }
      } catch (err) {
        measured.failures.push(`${shape.name}: ${messageOf(err)}`);
      } finally {
        await besides.stop();
      }
      process.stderr.write('\n');
    }
  } finally {
    await started.stop();
  }
  return measured;
}
