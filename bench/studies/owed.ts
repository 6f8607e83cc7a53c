import { request } from 'undici';
import { getEndpoint } from '../../src/redis/records/endpoint.js';
import { monotonicMs } from '../monotonicMs.js';
import { usageOf } from '../processUsage.js';
import type { Theatre } from '../theatre.js';
import { type Arrival, startEndpoint } from './endpoint.js';
import { publishEvents } from './publishEvents.js';
import { keyMemory, keysMemory, usedMemory } from './redisMemory.js';
import { runningWorkflows } from './runningWorkflows.js';
import type { Findings, Stage, Study, Table } from './study.js';
import { until } from './until.js';

type Size = 'events' | 'hotAssets' | 'assets' | 'drainSeconds' | 'drainPerSecond';
type Sizes = Readonly<Record<Size, number>>;

/** Measures deliveries to an endpoint after it was down, and the cost of many owed assets. */
export const owed: Study<Size> = {
  name: 'owed',
  about: 'What an endpoint gets after it was down; what owing it many assets costs; how they drain.',
  sizes: {
    events: [1000, 'published while the first endpoint is down'],
    hotAssets: [50, 'that these events are about'],
    assets: [100_000, 'owed to the second client, one event each'],
    drainSeconds: [60, 'for which its drain is measured'],
    drainPerSecond: [200, 'DRAIN_PER_SECOND of the service'],
  },
  async run(sizes, stage) {
    const theatre = await stage.open({ settings: { DRAIN_PER_SECOND: String(sizes.drainPerSecond) } });
    const newest = await eachAssetOnce(theatre, sizes, stage);
    return { tables: [newest, ...(await muchOwed(theatre, sizes, stage))] };
  },
};

async function eachAssetOnce(theatre: Theatre, sizes: Sizes, stage: Stage): Promise<Table> {
  const { stack, cast } = theatre;
  const endpoint = await startEndpoint();
  const [client = ''] = await cast.newRegisteredClients(1, endpoint.url);
  endpoint.answer = { status: 500, afterMs: 0 };
  stage.say(`${sizes.events} events for ${sizes.hotAssets} assets while their endpoint answers 500`);
  const ids = await publishEvents(
    { baseUrl: stack.baseUrl, accessToken: cast.platform.accessToken, batchSize: sizes.hotAssets, lanes: 1 },
    sizes.events,
    (i) => ({
      client_token: client,
      platform_id: `hot-${i % sizes.hotAssets}`,
      segments: [`new-${i}`],
    }),
  );
  await until('only the hot assets are owed', 60_000, async () => {
    const { owed, inFlight } = await getEndpoint(stack.db, client);
    return owed === sizes.hotAssets && inFlight === 0;
  });
  await until('their workflows have ended', 300_000, async () => {
    return ((await runningWorkflows(stack)).enrichment ?? 0) === 0;
  });

  stage.say('it answers 204 again');
  endpoint.answer = { status: 204, afterMs: 0 };
  await until('nothing is owed', 400_000, async () => (await getEndpoint(stack.db, client)).owed === 0);
  const taken = endpoint.arrivals.filter((a) => a.status === 204);
  await endpoint.close();
  const last = new Map(ids.map((id, i) => [`hot-${i % sizes.hotAssets}`, id]));
  return {
    title: `Down while ${sizes.events} events hit ${sizes.hotAssets} assets`,
    head: ['', 'POSTs', 'assets', "with the id of the asset's last event"],
    rows: [
      [
        'answered 500 while it was down',
        ...countsOf(
          endpoint.arrivals.filter((a) => a.status === 500),
          last,
        ),
      ],
      ['answered 204 after its return', ...countsOf(taken, last)],
    ],
  };
}

function countsOf(arrivals: readonly Arrival[], last: ReadonlyMap<string, string>): number[] {
  return [
    arrivals.length,
    new Set(arrivals.map((a) => a.platformId)).size,
    arrivals.filter((a) => last.get(a.platformId) === a.notificationId).length,
  ];
}

async function muchOwed(theatre: Theatre, sizes: Sizes, stage: Stage): Promise<Findings['tables']> {
  const { stack, cast } = theatre;
  const endpoint = await startEndpoint();
  endpoint.answer = 'reset';
  const [client = ''] = await cast.newRegisteredClients(1, endpoint.url);
  const memoryBefore = await usedMemory(stack.db);
  const usageBefore = usageOf(stack.pids);
  stage.say(`${sizes.assets} events for as many assets while their endpoint resets connections`);
  const from = monotonicMs();
  await publishEvents(
    { baseUrl: stack.baseUrl, accessToken: cast.platform.accessToken, batchSize: 500, lanes: 4 },
    sizes.assets,
    (i) => ({
      client_token: client,
      platform_id: `video-${i}`,
      segments: [`iab:${i % 700}`, 'mood:calm', `place:${i}`],
    }),
  );
  const acceptedPerSecond = (sizes.assets * 1000) / (monotonicMs() - from);
  await until(
    'all are owed',
    120_000,
    async () => (await getEndpoint(stack.db, client)).owed === sizes.assets,
  );
  await until('their workflows have ended', 300_000, async () => {
    return ((await runningWorkflows(stack)).enrichment ?? 0) === 0;
  });
  const running = await runningWorkflows(stack);
  const usageOwing = usageOf(stack.pids);
  const bytes = (await usedMemory(stack.db)) - memoryBefore;
  const parts = await memoryParts(theatre, client, bytes);

  stage.say('it takes connections again; resumed, then drained');
  endpoint.answer = { status: 204, afterMs: 0 };
  await resume(theatre, client);
  await until('the drain has begun', 60_000, () => endpoint.arrivals.length > 1);
  const begun = monotonicMs();
  const drained = await until('the drain is measured', sizes.drainSeconds * 1000 + 5000, async () => {
    const seconds = (monotonicMs() - begun) / 1000;
    const over = seconds >= sizes.drainSeconds || (await getEndpoint(stack.db, client)).owed === 0;
    return over && { seconds, count: endpoint.arrivals.length };
  });
  const usageDraining = usageOf(stack.pids);
  await endpoint.close();

  const perSecond = drained.count / drained.seconds;
  const distinct = new Set(endpoint.arrivals.map((a) => a.platformId)).size;
  const million = 1_000_000;
  const mb = (n: number) => n / 2 ** 20;
  return [
    {
      title: `Redis memory of ${sizes.assets} assets owed to one client, 3 segments each`,
      head: ['', 'bytes per asset', 'MB', 'MB for 1 million assets'],
      rows: parts.map(([what, n]) => [what, n / sizes.assets, mb(n), mb((n / sizes.assets) * million)]),
    },
    {
      title: 'What owing them costs',
      head: ['', `${sizes.assets} assets`, '1 million assets (computed)'],
      rows: [
        ['accepted per second while the endpoint resets connections', acceptedPerSecond, ''],
        ['running workflows', describe(running), describe(running)],
        ...Object.keys(stack.pids).map((name) => {
          const at = [usageBefore, usageOwing, usageDraining].map((u) =>
            mb(u[name]?.rssBytes ?? 0).toFixed(0),
          );
          return [`resident MB of ${name}: before / owing / draining`, at.join(' / '), ''];
        }),
        [`delivered per second over ${drained.seconds.toFixed(0)} s of drain`, perSecond, perSecond],
        ['delivered in that time / distinct assets', `${drained.count} / ${distinct}`, ''],
        ['minutes to drain all', sizes.assets / perSecond / 60, million / perSecond / 60],
      ],
    },
  ];
}

async function memoryParts(theatre: Theatre, client: string, bytes: number): Promise<[string, number][]> {
  const { db } = theatre.stack;
  const keys = db.client(client);
  const known = await keysMemory(db, `${keys.base}known:*`);
  const records = await keysMemory(db, keys.notification('*'));
  const parts: [string, number][] = [
    ['owed (hash: asset, id)', await keyMemory(db, keys.owed)],
    ['owed-since (sorted set)', await keyMemory(db, keys.owedSince)],
    ['due (sorted set)', (await keyMemory(db, keys.dueLive)) + (await keyMemory(db, keys.dueBackfill))],
    [`records (${records.keys} hashes)`, records.bytes],
    ['list of the newest 10,000 notifications', await keyMemory(db, keys.notifications)],
    [`known segments (${known.keys} buckets)`, known.bytes],
  ];
  const rest = bytes - parts.reduce((sum, [, n]) => sum + n, 0);
  return [
    ...parts,
    ['the rest: the table of keys, allocator', rest],
    ['all: difference of used_memory', bytes],
  ];
}

async function resume({ stack, cast }: Theatre, client: string): Promise<void> {
  const { statusCode, body } = await request(
    `${stack.baseUrl}/push_notifications/resume?client_token=${client}`,
    { method: 'POST', headers: { authorization: `Bearer ${cast.publisher.accessToken}` } },
  );
  await body.dump();
  if (statusCode !== 202) throw new Error(`not resumed: ${statusCode}`);
}

function describe(running: Record<string, number>): string {
  return Object.entries(running)
    .map(([type, n]) => `${n} ${type}`)
    .join(', ');
}
