import { lineChart } from '../lineChart.js';
import { measure, type Round } from '../measure.js';
import type { Theatre } from '../theatre.js';
import { importCatalogue } from './knownSegments.js';
import type { Cell, Stage, Study } from './study.js';

type Size = 'mostKnown' | 'mostClients' | 'segments' | 'publishers' | 'seconds';
type Sizes = Readonly<Record<Size, number>>;

interface Step {
  at: number;
  round: Round;
}

/** What one notification costs while the store fills and the clients become more. */
export const curves: Study<Size> = {
  name: 'curves',
  about: 'CPU time for one notification over known assets, and over clients.',
  sizes: {
    mostKnown: [1_000_000, 'assets, from 1,000 on in steps of ten'],
    mostClients: [10_000, 'clients with an endpoint, from 10 on in steps of ten'],
    segments: [10, 'of each known asset'],
    publishers: [64, 'single events at a time'],
    seconds: [8, 'measured of each step'],
  },
  async run(sizes, stage) {
    const known = await overKnown(await stage.open({ split: false }), sizes, stage);
    const clients = await overClients(await stage.open({ split: false }), sizes, stage);
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

async function overKnown(theatre: Theatre, sizes: Sizes, stage: Stage): Promise<Step[]> {
  const clientTokens = await theatre.cast.newRegisteredClients(50, theatre.receiverUrl);
  await load(theatre, clientTokens, 'warm-up', sizes);
  const steps: Step[] = [];
  let before = 0;
  for (const known of powersOfTen(1000, sizes.mostKnown)) {
    stage.say(`${known} known assets`);
    const perClient = Math.ceil(known / clientTokens.length);
    for (const client of clientTokens) {
      await importCatalogue(theatre.stack.db, client, {
        from: before,
        to: perClient,
        segments: sizes.segments,
      });
    }
    before = perClient;
    steps.push({ at: known, round: await load(theatre, clientTokens, `known-${known}`, sizes) });
  }
  return steps;
}

async function overClients(theatre: Theatre, sizes: Sizes, stage: Stage): Promise<Step[]> {
  const clientTokens: string[] = [];
  const steps: Step[] = [];
  for (const count of powersOfTen(10, sizes.mostClients)) {
    stage.say(`${count} clients`);
    const more = count - clientTokens.length;
    const lanes = 10;
    const made = await Promise.all(
      Array.from({ length: lanes }, (_, lane) =>
        theatre.cast.newRegisteredClients(Math.floor((more + lane) / lanes), theatre.receiverUrl),
      ),
    );
    clientTokens.push(...made.flat());
    if (steps.length === 0) await load(theatre, clientTokens, 'warm-up', sizes);
    steps.push({
      at: clientTokens.length,
      round: await load(theatre, clientTokens, `clients-${count}`, sizes),
    });
  }
  return steps;
}

async function load(theatre: Theatre, clientTokens: string[], name: string, sizes: Sizes): Promise<Round> {
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

const cpuOf = (round: Round) => processes.reduce((sum, name) => sum + (round.cpuMsPerUnit[name] ?? 0), 0);

function tableOf(title: string, what: string, steps: readonly Step[]) {
  const first = steps[0];
  return {
    title,
    head: [
      what,
      'CPU ms per notification',
      'of the first step',
      ...processes,
      'delivered/s',
      'p50 ms',
      'p99 ms',
      'missing',
      'MB of redis',
    ],
    rows: steps.map(({ at, round }): Cell[] => [
      at,
      cpuOf(round),
      cpuOf(round) / (first ? cpuOf(first.round) : Number.NaN),
      ...processes.map((name) => round.cpuMsPerUnit[name] ?? Number.NaN),
      round.delivery?.perSecond ?? Number.NaN,
      round.delivery?.latency.p50 ?? Number.NaN,
      round.delivery?.latency.p99 ?? Number.NaN,
      round.delivery?.accounting.missing ?? Number.NaN,
      round.rssMb.redis ?? Number.NaN,
    ]),
  };
}

function pictureOf(title: string, what: string, steps: readonly Step[]): string {
  return lineChart({
    title,
    xLabel: `${what}, power of ten`,
    yLabel: 'CPU ms per notification',
    series: [
      { name: 'all', points: steps.map(({ at, round }) => ({ x: Math.log10(at), y: cpuOf(round) })) },
      ...processes.map((name) => ({
        name,
        points: steps.map(({ at, round }) => ({
          x: Math.log10(at),
          y: round.cpuMsPerUnit[name] ?? Number.NaN,
        })),
      })),
    ],
  });
}
