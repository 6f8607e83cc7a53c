import { readdirSync } from 'node:fs';
import { owedInAll } from '../../src/redis/owed/owedClients.js';
import { monotonicMs } from '../monotonicMs.js';
import { percentile } from '../percentile.js';
import { processUsage } from '../processUsage.js';
import type { Theatre } from '../theatre.js';
import { type OriginFarm, startOriginFarm } from './originFarm.js';
import { publishEvents } from './publishEvents.js';
import type { Cell, Study } from './study.js';
import { until } from './until.js';

type Size = 'origins' | 'perSecond' | 'idleSeconds';

/** Measures sockets and memory with many origins, and whether silent origins delay the others. */
export const origins: Study<Size> = {
  name: 'origins',
  about: 'Sockets and memory while notifications go to many origins, also while half of them never answer.',
  sizes: {
    origins: [10_000, 'each with one client'],
    perSecond: [400, 'events, one to each origin, in batches of 10'],
    idleSeconds: [60, 'in which the least heap in use is looked for at the end'],
  },
  async run(sizes, stage) {
    const theatre = await stage.open({ split: false });
    const farm = await startOriginFarm(sizes.origins);
    stage.say(`${sizes.origins} clients`);
    const clientTokens = await registerAll(theatre, farm);
    const half = (origin: number) => origin % 2 === 0;
    const all = () => true;
    const latencies: Cell[][] = [];
    const resources: Cell[][] = [
      ['at the beginning', ...resourcesOf(theatre, farm), await usedHeapMb(theatre, 0)],
    ];
    const pass = async (what: string, answers: (origin: number) => boolean) => {
      stage.say(what);
      farm.answers = answers;
      farm.firstArrival.clear();
      const peak = watchPeak(theatre, farm);
      const sentAt = await publishToAll(theatre, clientTokens, what, sizes.perSecond);
      await until('all that answer have it', 60_000, () =>
        sentAt.every((_, i) => !answers(i) || farm.firstArrival.has(i)),
      );
      latencies.push([what, ...latencyOf(sentAt, farm, answers)]);
      resources.push([`most while: ${what}`, ...peak(), '']);
    };
    await pass('first pass', all);
    await pass('second pass, all answer', all);
    await pass('half of them never answer', half);
    stage.say('they answer again');
    farm.answers = all;
    const recovering = watchPeak(theatre, farm);
    const owedBefore = await owedInAll(theatre.stack.db);
    const from = monotonicMs();
    // Reading 10,000 clients has a cost.
    await until('nothing is owed', 600_000, async () => (await owedInAll(theatre.stack.db)) === 0, 2_000);
    const recoveredSeconds = (monotonicMs() - from) / 1000;
    resources.push([
      `most while ${owedBefore} are caught up with, ${recoveredSeconds.toFixed(0)} s`,
      ...recovering(),
      '',
    ]);
    stage.say('nothing to do');
    await until('its connections have ended', 60_000, () => farm.connections() === 0);
    const heapMb = await usedHeapMb(theatre, sizes.idleSeconds);
    resources.push(['with nothing to do', ...resourcesOf(theatre, farm), heapMb]);
    await farm.close();
    return {
      tables: [
        {
          title: `${sizes.origins} origins, one event to each, ${sizes.perSecond} a second`,
          head: ['accept to arrival at origins that answer, ms', 'p50', 'p99', 'max', 'arrived'],
          rows: latencies,
        },
        {
          title: 'Sockets and memory',
          head: [
            '',
            'open files of the service',
            'connections to origins',
            'resident MB of the service',
            'MB of its heap in use',
          ],
          rows: resources,
        },
      ],
    };
  },
};

/** Registers a URL for each client, each at its own origin. */
async function registerAll({ cast }: Theatre, farm: OriginFarm): Promise<string[]> {
  const clientTokens = await cast.newClients(farm.urls.length);
  const lane = async (from: number) => {
    for (let i = from; i < clientTokens.length; i += 10) {
      await cast.register(clientTokens[i] ?? '', farm.urls[i] ?? '');
    }
  };
  await Promise.all(Array.from({ length: 10 }, (_, from) => lane(from)));
  return clientTokens;
}

async function publishToAll(
  { stack, cast }: Theatre,
  clientTokens: readonly string[],
  pass: string,
  perSecond: number,
): Promise<number[]> {
  const sentAt: number[] = [];
  await publishEvents(
    { baseUrl: stack.baseUrl, accessToken: cast.platform.accessToken, batchSize: 10, lanes: 16, perSecond },
    clientTokens.length,
    (i) => {
      sentAt[i] ??= monotonicMs();
      return { client_token: clientTokens[i] ?? '', platform_id: `video ${pass}`, segments: ['iab:1'] };
    },
  );
  return sentAt;
}

function latencyOf(
  sentAt: readonly number[],
  farm: OriginFarm,
  answers: (origin: number) => boolean,
): number[] {
  const ms = sentAt.flatMap((at, i) => (answers(i) ? [(farm.firstArrival.get(i) ?? Number.NaN) - at] : []));
  const sorted = Float64Array.from(ms).sort();
  return [percentile(sorted, 0.5), percentile(sorted, 0.99), percentile(sorted, 1), sorted.length];
}

function resourcesOf({ stack }: Theatre, farm: OriginFarm): number[] {
  const pid = stack.pids.service ?? 0;
  return [
    readdirSync(`/proc/${pid}/fd`).length,
    farm.connections(),
    Math.round(processUsage(pid).rssBytes / 2 ** 20),
  ];
}

/** Returns the smallest heap in use within a number of seconds, MB, from the service's metrics. */
async function usedHeapMb({ stack }: Theatre, seconds: number): Promise<number> {
  let least = Number.POSITIVE_INFINITY;
  for (let left = seconds; left >= 0; left--) {
    const metrics = await (await fetch(`${stack.adminUrl}/metrics`)).text();
    const bytes = Number(/^nodejs_heap_size_used_bytes (\S+)$/m.exec(metrics)?.[1]);
    least = Math.min(least, Math.round(bytes / 2 ** 20));
    if (left > 0) await new Promise((resolve) => setTimeout(resolve, 1000));
  }
  return least;
}

/** Watches the resources until the returned function is called, which returns the largest value of each. */
function watchPeak(theatre: Theatre, farm: OriginFarm): () => number[] {
  let most = resourcesOf(theatre, farm);
  const timer = setInterval(() => {
    most = resourcesOf(theatre, farm).map((value, i) => Math.max(value, most[i] ?? 0));
  }, 250);
  return () => {
    clearInterval(timer);
    return most;
  };
}
