/** `npm run bench -- contest`: this service and others under the same loads and faults, in turn. Method: docs/contest.md. */
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { Command } from 'commander';
import { projectDir } from '../../src/operator/npmStart.js';
import { startChild } from '../child.js';
import type { FromReceiver, ToReceiver } from '../receiver.js';
import { beginRunRecord, over, type RunRecord, table } from '../report.js';
import { type Contestant, outpost, thisService, webhookx } from './contestants.js';
import { type Course, courses, type Outcome, run } from './course.js';
import { Parts } from './parts.js';

type Options = Record<'outpost' | 'webhookx' | 'only', string | undefined> & { rounds: number; out: string };
type Results = { runs: RunRecord[]; entries: Entry[] };
/** One round of one course by one contestant, or why there is none. */
type Entry = { course: string; contestant: string; outcome?: Outcome; why?: string };

export const contestCommand = (positive: (text: string) => number) =>
  new Command('contest')
    .description('This service and others, whose built sources are given, under the same loads and faults.')
    .argument('[courses...]', `all when none is given: ${courses.map(({ name }) => name).join(', ')}`)
    .option('--outpost <folder>', 'the sources of Hookdeck Outpost, built')
    .option('--webhookx <folder>', 'the sources of WebhookX, built')
    .option('--only <name>', 'one contestant: service, outpost or webhookx')
    .option('--rounds <n>', 'of each course; each begins with another contestant', positive, 1)
    .option('--out <file>', 'for the results; adds to those that are there', 'bench/results/contest.json')
    .action(contest);

async function contest(named: string[], options: Options): Promise<void> {
  const chosen = courses.filter(({ name }) => named.length === 0 || named.includes(name));
  const out = resolve(options.out);
  const before = existsSync(out) ? readFileSync(out, 'utf8') : '{"runs":[],"entries":[]}';
  const results: Results = JSON.parse(before);
  const given = {
    service: thisService,
    outpost: options.outpost && outpost(resolve(options.outpost)),
    webhookx: options.webhookx && webhookx(resolve(options.webhookx)),
  };
  const contestants = Object.entries(given).flatMap(([key, contestant]) =>
    contestant && key === (options.only ?? key) ? [contestant] : [],
  );
  const commit = execFileSync('git', ['rev-parse', '--short', 'HEAD'], { cwd: projectDir, encoding: 'utf8' });
  const record = beginRunRecord();
  results.runs.push({ ...record, command: `${record.command} (commit ${commit.trim()})` });
  mkdirSync(dirname(out), { recursive: true });
  for (let round = 0; round < options.rounds; round++) {
    const first = (results.runs.length - 1 + round) % contestants.length;
    for (const one of [...contestants.slice(first), ...contestants.slice(0, first)]) {
      results.entries.push(...(await compete(one, chosen)));
      // What is cut off here leaves the results of all former runs.
      writeFileSync(`${out}.draft`, `${JSON.stringify(results, null, 1)}\n`);
      renameSync(`${out}.draft`, out);
    }
  }
  console.log(`${markdown(results)}\n\nResults: ${out}`);
}

/** Starts a contestant and its stores, runs the courses, and stops all of it. */
async function compete(contestant: Contestant, chosen: readonly Course[]): Promise<Entry[]> {
  const data = join(projectDir, '.data');
  mkdirSync(data, { recursive: true });
  const parts = new Parts(await mkdtemp(join(data, `contest-${process.pid}-`)));
  const { child: receiver, ready } = await startChild<ToReceiver, FromReceiver>('receiver');
  const entries: Entry[] = [];
  try {
    const running = await contestant.start(parts, `http://127.0.0.1:${ready.port}`);
    for (const course of chosen) {
      const scene = { contestant, running, parts, receiver };
      const isOut = course.batchSize && !contestant.takesBatches;
      const result = isOut ? { why: 'takes one event a request' } : { outcome: await run(course, scene) };
      entries.push({ course: course.name, contestant: contestant.name, ...result });
      process.stderr.write(`${JSON.stringify(entries.at(-1))}\n`);
    }
  } catch (err) {
    const why = err instanceof Error ? err.message : String(err);
    process.stderr.write(`${contestant.name}: ${why}\n`);
    const missed = chosen.slice(entries.length);
    entries.push(...missed.map(({ name }) => ({ course: name, contestant: contestant.name, why })));
  } finally {
    await parts.stop();
    await receiver.stop();
    await rm(parts.dir, { recursive: true, force: true });
  }
  return entries;
}

const spreadOf = (figure: (outcome: Outcome) => number) => (all: Outcome[]) => over(all.map(figure));
const sumOf = (figure: (outcome: Outcome) => number) => (all: Outcome[]) =>
  all.reduce((sum, outcome) => sum + figure(outcome), 0).toLocaleString('en');

const columns: Readonly<Record<string, (all: Outcome[]) => string>> = {
  rounds: (all) => String(all.length),
  'CPU ms an event': spreadOf((x) => x.cpuMs ?? Number.NaN),
  'delivered/s': spreadOf((x) => x.deliveredPerSecond),
  'p50 ms': spreadOf((x) => x.delivery.p50),
  'p99 ms': spreadOf((x) => x.delivery.p99),
  'answer p99 ms': spreadOf((x) => x.answer.p99),
  'last arrival after the last answer, s': spreadOf((x) => x.secondsAfter),
  acknowledged: sumOf((x) => x.acknowledged),
  delivered: sumOf((x) => x.delivered),
  lost: sumOf((x) => x.lost),
  twice: sumOf((x) => x.twice),
  'never acknowledged': sumOf((x) => x.givenUp),
};

function markdown({ runs, entries }: Results): string {
  const head = runs.map(({ startedAt, command, machine }) => `- \`${command}\`, ${startedAt}: ${machine}`);
  const tables = courses.flatMap(({ name, what }) => {
    const own = entries.filter(({ course }) => course === name);
    const rows = [...new Set(own.map(({ contestant }) => contestant))].map((contestant) => {
      const all = own.filter((entry) => entry.contestant === contestant);
      const outcomes = all.flatMap(({ outcome }) => outcome ?? []);
      const why = all.flatMap((entry) => entry.why?.split('\n')[0] ?? []);
      const cells = outcomes.length === 0 ? why : Object.values(columns).map((column) => column(outcomes));
      return [contestant, ...cells];
    });
    return rows.length === 0 ? [] : [`**${what}**`, table([name, ...Object.keys(columns)], rows)];
  });
  return [head.join('\n'), ...tables].join('\n\n');
}
