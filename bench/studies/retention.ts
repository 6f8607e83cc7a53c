import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { Client, Connection } from '@temporalio/client';
import type { Stack } from '../stack.js';
import type { Theatre } from '../theatre.js';
import { startEndpoint } from './endpoint.js';
import { publishEvents } from './publishEvents.js';
import { keysMemory, usedMemory } from './redisMemory.js';
import { runningWorkflows } from './runningWorkflows.js';
import type { Stage, Study, Table } from './study.js';
import { until } from './until.js';

type Size = 'events' | 'alone' | 'clients';

/** What the stores hold. */
interface Kept {
  workflows: number;
  /** bytes of memory */
  redis: number;
  /** bytes of its append-only file */
  file: number;
  /** bytes of the files of Temporal's two databases */
  postgresql: number;
}

interface Load {
  what: string;
  segments: readonly string[];
  notify?: false;
}

const loads: readonly Load[] = [
  { what: 'delivered, 3 new segments', segments: ['one', 'two', 'three'] },
  { what: 'nothing new', segments: ['one', 'two', 'three'] },
  { what: 'silent, 3 new segments', segments: ['four', 'five', 'six'], notify: false },
];

/** The keys that grow with events. */
const families = {
  'records of notifications': 'notification:*',
  'the list of notifications': 'notifications',
  'known segments': 'known:*',
  'last decisions': 'decision:*',
} as const;

/** Measures what events leave in each store for as long as it is kept. */
export const retention: Study<Size> = {
  name: 'retention',
  about: 'What events leave in Redis and PostgreSQL while it is kept, on the servers of npm run stack.',
  sizes: {
    events: [20_000, 'of each kind, in groups (WORKFLOWS_PER_SECOND=10)'],
    alone: [3_000, 'of each kind, each in a workflow of its own'],
    clients: [50, 'that they are for'],
  },
  async run({ events, alone, clients }, stage) {
    return {
      tables: [
        ...(await leftBy(events, clients, '10', stage)),
        ...(await leftBy(alone, clients, '10000', stage)),
      ],
    };
  },
};

async function leftBy(events: number, count: number, starts: string, stage: Stage): Promise<Table[]> {
  const theatre = await stage.open({
    production: true,
    split: false,
    settings: { WORKFLOWS_PER_SECOND: starts },
    // The growth of its file is counted.
    redisArgs: ['--auto-aof-rewrite-percentage', '0'],
  });
  const { stack, cast } = theatre;
  const endpoint = await startEndpoint();
  const clients = await cast.newRegisteredClients(count, endpoint.url);
  const rows: (string | number)[][] = [];
  for (const [n, { what, segments, notify }] of loads.entries()) {
    stage.say(`${events} events ${what}, WORKFLOWS_PER_SECOND=${starts}`);
    const before = await keptNow(stack);
    await publishEvents(
      { baseUrl: stack.baseUrl, accessToken: cast.platform.accessToken, batchSize: 20, lanes: 4 },
      events,
      (i) => ({
        client_token: clients[i % clients.length] ?? '',
        platform_id: `asset-${String(i).padStart(9, '0')}`,
        event_id: `analysis-${n}-${String(i).padStart(9, '0')}`,
        segments: [...segments],
        ...(notify === false && { notify }),
      }),
    );
    await untilEnded(theatre, endpoint.arrivals, n === 0 ? events : 0);
    const after = await keptNow(stack);
    const workflows = after.workflows - before.workflows;
    const perMillion = (name: keyof Kept) => (((after[name] - before[name]) / events) * 1e6) / 2 ** 20;
    rows.push([
      ...[what, Math.round((workflows / events) * 1e6), perMillion('redis'), perMillion('file')],
      ...[
        perMillion('postgresql'),
        workflows === 0 ? '' : (after.postgresql - before.postgresql) / workflows,
      ],
    ]);
  }
  await endpoint.close();
  const byKey = await Promise.all(
    Object.entries(families).map(async ([name, keys]) => {
      const { bytes } = await keysMemory(stack.db, `*}:${keys}`);
      return [name, bytes / 2 ** 20 / (events / 1e6)];
    }),
  );
  return [
    {
      title: `A million events, WORKFLOWS_PER_SECOND=${starts}: MB`,
      head: [
        'events',
        'workflows',
        'Redis',
        'its file until it is rewritten',
        'PostgreSQL',
        'bytes of a workflow',
      ],
      rows,
    },
    {
      title: `Redis after all three, by key (MEMORY USAGE): MB of a million assets`,
      head: ['keys', 'MB'],
      rows: byKey,
    },
  ];
}

async function untilEnded({ stack }: Theatre, arrivals: readonly unknown[], arrived: number): Promise<void> {
  if (arrived > 0) await until('all are delivered', 600_000, () => arrivals.length >= arrived);
  await until('their workflows have ended', 600_000, async () => {
    const running = await runningWorkflows(stack);
    return (running.enrichment ?? 0) === 0;
  });
}

async function keptNow(stack: Stack): Promise<Kept> {
  const persistence = await stack.db.redis.info('persistence');
  return {
    workflows: await enrichments(stack),
    redis: await usedMemory(stack.db),
    file: Number(/^aof_current_size:(\d+)/m.exec(persistence)?.[1]),
    postgresql: await sizeOf(join(stack.dataDir, 'postgresql', 'data', 'base')),
  };
}

/** Counts enrichment workflows, running and closed. */
async function enrichments(stack: Stack): Promise<number> {
  const connection = await Connection.connect({ address: stack.temporalAddress });
  try {
    const query = `WorkflowType = 'enrichment' AND TaskQueue = '${stack.taskQueue}'`;
    return (await new Client({ connection }).workflow.count(query)).count;
  } finally {
    await connection.close();
  }
}

async function sizeOf(folder: string): Promise<number> {
  const files = await readdir(folder, { recursive: true, withFileTypes: true });
  const sizes = files.filter((one) => one.isFile()).map((one) => stat(join(one.parentPath, one.name)));
  return (await Promise.all(sizes)).reduce((sum, { size }) => sum + size, 0);
}
