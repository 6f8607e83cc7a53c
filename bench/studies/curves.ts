import { lineChart } from '../lineChart.js';
import { measure, type Round } from '../measure.js';
import type { Theatre } from '../theatre.js';
import { importCatalogue } from './knownSegments.js';
import type { Cell, Stage, Study } from './study.js';

type Size = 'mostKnown' | 'mostClients' | 'segments' | 'publishers' | 'seconds';
type Sizes = Readonly<Record<Size, number>>;

interface Step {
  at: number;
  /** Two rounds of the growing service, and two of the one that stays as small as at the first step. */
  grown: Round[];
  small: Round[];
}

interface Side {
  theatre: Theatre;
  clientTokens: string[];
}

/**
 * Measures the cost of a notification while the numbers of known assets and of clients grow, beside a service that stays small.
 * Both are measured in turn, so that a machine that becomes slower affects both.
 */
export const curves: Study<Size> = {
  name: 'curves',
  about: 'CPU time for one notification over known assets, and over clients.',
  sizes: {
    mostKnown: [1_000_000, 'assets, from 1,000 on in steps of ten'],
    mostClients: [10_000, 'clients with an endpoint, from 10 on in steps of ten'],
    segments: [10, 'of each known asset'],
    publishers: [64, 'single events at a time'],
    seconds: [6, 'of a round; four for each step'],
  },
  async run(sizes, stage) {
    const known = await overKnown(sizes, stage);
    const clients = await overClients(sizes, stage);
    return {
      tables: [
        tableOf('Over known assets, 50 clients', 'known assets', known),
        tableOf('Over clients', 'clients', clients),
      ],
      pictures: [
        ['cost-over-known.svg', pictureOf('Cost of a notification over known assets', 'known assets', known)],
        ['cost-over-clients.svg', pictureOf('Cost of a notification over clients', 'clients', clients)],
      ],
    };
  },
};

async function overKnown(sizes: Sizes, stage: Stage): Promise<Step[]> {
  const [grown, small] = await openBoth(stage);
  for (const side of [grown, small]) await registerUpTo(50, side);
  const counts = powersOfTen(1000, sizes.mostKnown);
  await fill(small, 0, counts[0] ?? 0, sizes);
  const steps: Step[] = [];
  let before = 0;
  for (const known of counts) {
    stage.say(`${known} known assets`);
    await fill(grown, before, known, sizes);
    before = known;
    steps.push(await inTurn(known, grown, small, `known-${known}`, sizes));
  }
  return steps;
}

async function overClients(sizes: Sizes, stage: Stage): Promise<Step[]> {
  const [grown, small] = await openBoth(stage);
  const counts = powersOfTen(10, sizes.mostClients);
  await registerUpTo(counts[0] ?? 0, small);
  const steps: Step[] = [];
  for (const count of counts) {
    stage.say(`${count} clients`);
    await registerUpTo(count, grown);
    steps.push(await inTurn(count, grown, small, `clients-${count}`, sizes));
  }
  return steps;
}

async function openBoth(stage: Stage): Promise<[Side, Side]> {
  // Off, because Redis rewrites its log whenever it has doubled. That takes half a second or more, in some rounds only.
  const options = { split: false, redisArgs: ['--auto-aof-rewrite-percentage', '0'] };
  return [
    { theatre: await stage.open(options), clientTokens: [] },
    { theatre: await stage.openBeside(options), clientTokens: [] },
  ];
}

async function registerUpTo(count: number, { theatre, clientTokens }: Side): Promise<void> {
  const more = count - clientTokens.length;
  const lanes = 10;
  const made = await Promise.all(
    Array.from({ length: lanes }, (_, lane) =>
      theatre.cast.newRegisteredClients(Math.floor((more + lane) / lanes), theatre.receiverUrl),
    ),
  );
  clientTokens.push(...made.flat());
}

/** Adds known assets over all clients. */
async function fill({ theatre, clientTokens }: Side, before: number, known: number, sizes: Sizes) {
  const { db } = theatre.stack;
  const perClient = (n: number) => Math.ceil(n / clientTokens.length);
  for (const client of clientTokens) {
    const assets = { from: perClient(before), to: perClient(known), segments: sizes.segments };
    await importCatalogue(db, client, assets);
  }
}

async function inTurn(at: number, grown: Side, small: Side, name: string, sizes: Sizes): Promise<Step> {
  const step: Step = { at, grown: [], small: [] };
  for (const [round, which] of (['small', 'grown', 'grown', 'small'] as const).entries()) {
    step[which].push(await load({ grown, small }[which], `${name}-${round}`, sizes));
  }
  return step;
}

async function load({ theatre, clientTokens }: Side, name: string, sizes: Sizes): Promise<Round> {
  const { stack, cast, publisher, receiver, pids } = theatre;
  return await measure(
    {
      baseUrls: stack.baseUrls,
      connections: sizes.publishers,
      pace: { kind: 'concurrency', publishers: sizes.publishers },
      warmUpMs: 2000,
      durationMs: sizes.seconds * 1000,
      request: {
        kind: 'events',
        accessToken: cast.platform.accessToken,
        clientTokens,
        batchSize: 1,
        segments: 3,
        assets: 0,
        round: name,
      },
    },
    publisher,
    receiver,
    pids,
  );
}

function powersOfTen(from: number, to: number): number[] {
  const steps: number[] = [];
  for (let n = from; n <= to; n *= 10) steps.push(n);
  return steps;
}

const processes = ['service', 'temporal', 'redis'];

const mean = (rounds: readonly Round[], value: (round: Round) => number | undefined) =>
  rounds.reduce((sum, round) => sum + (value(round) ?? Number.NaN), 0) / rounds.length;

const cpuOf = (rounds: readonly Round[], names: readonly string[] = processes) =>
  mean(rounds, (round) => names.reduce((sum, name) => sum + (round.cpuMsPerUnit[name] ?? 0), 0));

function tableOf(title: string, what: string, steps: readonly Step[]) {
  return {
    title,
    head: [
      what,
      'CPU ms per notification',
      'of the small service beside it',
      ...processes.map((name) => `${name} (beside)`),
      'delivered/s (beside)',
      'p50 ms (beside)',
      'p99 ms (beside)',
      'missing',
      'MB of redis',
    ],
    rows: steps.map(({ at, grown, small }): Cell[] => {
      const both = (value: (rounds: Round[]) => number, digits: number) =>
        `${value(grown).toFixed(digits)} (${value(small).toFixed(digits)})`;
      return [
        at,
        both((rounds) => cpuOf(rounds), 2),
        cpuOf(grown) / cpuOf(small),
        ...processes.map((name) => both((rounds) => cpuOf(rounds, [name]), 2)),
        both((rounds) => mean(rounds, (x) => x.delivery?.perSecond), 0),
        both((rounds) => mean(rounds, (x) => x.delivery?.latency.p50), 1),
        both((rounds) => mean(rounds, (x) => x.delivery?.latency.p99), 1),
        [...grown, ...small].reduce((sum, x) => sum + (x.delivery?.accounting.missing ?? 0), 0),
        mean(grown, (x) => x.rssMb.redis),
      ];
    }),
  };
}

function pictureOf(title: string, what: string, steps: readonly Step[]): string {
  const line = (name: string, y: (step: Step) => number) => ({
    name,
    points: steps.map((step) => ({ x: Math.log10(step.at), y: y(step) })),
  });
  return lineChart({
    title,
    xLabel: `${what}, power of ten`,
    yLabel: 'CPU ms per notification',
    series: [
      line('all', ({ grown }) => cpuOf(grown)),
      line('small service', ({ small }) => cpuOf(small)),
      ...processes.map((name) => line(name, ({ grown }) => cpuOf(grown, [name]))),
    ],
  });
}
