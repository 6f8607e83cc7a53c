import { setTimeout as sleep } from 'node:timers/promises';
import { Client, Connection } from '@temporalio/client';
import { createLogger } from '../../src/log.js';
import { mapInPages } from '../../src/mapInPages.js';
import type { ArrivedEvent } from '../../src/redis/owed/claim.js';
import { turnAttempts } from '../../src/redis/owed/turn.js';
import { setClient } from '../../src/redis/records/clients.js';
import { createCatchUps } from '../../src/temporal/catchUps.js';
import { workflowIds } from '../../src/temporal/workflowIds.js';
import { monotonicMs } from '../monotonicMs.js';
import { processUsage } from '../processUsage.js';
import type { Stack } from '../stack.js';
import { type Endpoint, startEndpoint } from './endpoint.js';
import { owe } from './owe.js';
import { redisWork } from './redisWork.js';
import type { Cell, Stage, Study } from './study.js';
import { until } from './until.js';

type Size = 'clients' | 'assets' | 'seconds';
type Sizes = Readonly<Record<Size, number>>;

/** A phase, by the reason why its drains have nothing to send. */
interface Phase {
  name: string;
  clients: number;
  /** The time that the answer to a POST takes. */
  answerMs: number;
  bounds: { maxInFlight?: number; maxPerSecond?: number };
  /** Prepares the owed assets of a client before its drain begins. */
  prepare?(stack: Stack, clientToken: string, owed: readonly ArrivedEvent[]): Promise<void>;
}

/** Just within the time limit of an attempt. */
const slowMs = 50_000;
const settings = {
  ATTEMPT_TIMEOUT_SECONDS: '60',
  CONNECTIONS_PER_ORIGIN: '4096',
};

/** Measures the cost of catch-up in Redis while it may send nothing. */
export const drains: Study<Size> = {
  name: 'drains',
  about:
    'Load of Redis by drains of clients in backfill that have nothing to send, while the sweep is paused.',
  sizes: {
    clients: [1000, 'in backfill at one time'],
    assets: [300, 'owed to each'],
    seconds: [20, 'measured of each phase'],
  },
  async run(sizes, stage) {
    const rows: Cell[][] = [];
    for (const phase of phasesOf(sizes)) rows.push(await measure(phase, sizes, stage));
    return {
      tables: [
        {
          title: `Redis beside clients in backfill, ${sizes.assets} assets owed to each, over ${sizes.seconds} s`,
          head: [
            '',
            'clients',
            'deliveries/s',
            'scripts/s',
            'script us',
            '% of a core, Redis',
            '% of a core, service',
            '% of a core, Temporal',
          ],
          rows,
        },
      ],
    };
  },
};

function phasesOf({ clients }: Sizes): Phase[] {
  return [1, clients].flatMap((many) => [
    {
      name: 'the receiver takes 50 s for each answer, one at a time',
      clients: many,
      answerMs: slowMs,
      bounds: { maxInFlight: 1 },
    },
    {
      name: 'another process holds the place',
      clients: many,
      answerMs: 0,
      bounds: { maxInFlight: 1 },
      prepare: holdPlace,
    },
    {
      name: 'the rate lets through one in 20 s',
      clients: many,
      answerMs: 0,
      bounds: { maxPerSecond: 0.05 },
    },
    {
      name: 'the rate lets through one in 200 s',
      clients: many,
      answerMs: 0,
      bounds: { maxPerSecond: 0.005 },
    },
    {
      name: 'nothing is due for an hour',
      clients: many,
      answerMs: 0,
      bounds: {},
      prepare: putOff,
    },
  ]);
}

async function measure(phase: Phase, sizes: Sizes, stage: Stage): Promise<Cell[]> {
  stage.say(`${phase.clients} clients: ${phase.name}`);
  const { stack, cast } = await stage.open({ split: false, settings });
  const endpoint = await startEndpoint();
  endpoint.answer = { status: 204, afterMs: phase.answerMs };
  const clientTokens = await cast.newRegisteredClients(phase.clients, endpoint.url);
  await mapInPages(clientTokens, 20, async (clientToken) => {
    await setClient(stack.db, clientToken, phase.bounds);
    const owed = await owe(stack.db, clientToken, sizes.assets, 'backfill');
    await phase.prepare?.(stack, clientToken, owed);
  });
  stage.say('the drains begin');
  await startDrains(stack, clientTokens);
  await sleep(settleMs);
  const row = await window(stack, endpoint, sizes.seconds);
  // SIGKILL, because with SIGTERM the service would first finish its attempts.
  process.kill(stack.pids.service ?? 0, 'SIGKILL');
  await endpoint.close();
  return [phase.name, phase.clients, ...row];
}

/** Time in which every drain plans and sends what it may. */
const settleMs = 10_000;

async function startDrains(stack: Stack, clientTokens: readonly string[]): Promise<void> {
  const connection = await Connection.connect({ address: stack.temporalAddress });
  try {
    const temporal = new Client({ connection });
    const catchUps = createCatchUps({
      temporal,
      db: stack.db,
      taskQueue: stack.taskQueue,
      log: createLogger('warn', 'bench'),
    });
    await mapInPages(clientTokens, 20, (clientToken) => catchUps.start(clientToken));
    // The sweep reads every client each minute, which is not the work of a drain.
    await temporal.schedule.getHandle(workflowIds(stack.taskQueue).sweep).pause();
    await until('every client has a plan', 600_000, async () => {
      const planned = stack.db.redis.pipeline();
      for (const clientToken of clientTokens) {
        planned.hexists(stack.db.client(clientToken).endpoint, 'planned_at');
      }
      return ((await planned.exec()) ?? []).every(([, has]) => has === 1);
    });
  } finally {
    await connection.close();
  }
}

async function window(stack: Stack, endpoint: Endpoint, seconds: number): Promise<Cell[]> {
  const cpuMsOf = (name: string) => processUsage(stack.pids[name] ?? 0).cpuMs;
  const before = { ...(await redisWork(stack.db)), arrivals: endpoint.arrivals.length };
  const cpuMs = { service: cpuMsOf('service'), temporal: cpuMsOf('temporal') };
  const from = monotonicMs();
  await sleep(seconds * 1000);
  const took = (monotonicMs() - from) / 1000;
  const after = await redisWork(stack.db);
  const scripts = after.scripts - before.scripts;
  return [
    (endpoint.arrivals.length - before.arrivals) / took,
    scripts / took,
    scripts === 0 ? 0 : (after.scriptUs - before.scriptUs) / scripts,
    ((after.cpuSeconds - before.cpuSeconds) / took) * 100,
    (cpuMsOf('service') - cpuMs.service) / took / 10,
    (cpuMsOf('temporal') - cpuMs.temporal) / took / 10,
  ];
}

const leaseOfOtherMs = 3_600_000;
const noSchedule = {
  retryScheduleMs: [],
  retryWindowMs: 0,
  failingAfter: 1,
  probeScheduleMs: [],
  suspendAfterMs: 0,
};

/** Holds the client's place, as another process would. */
async function holdPlace({ db }: Stack, clientToken: string, owed: readonly ArrivedEvent[]): Promise<void> {
  const [first] = owed;
  if (first === undefined) return;
  const settings = { ...noSchedule, leaseMs: leaseOfOtherMs, maxInFlight: 1, drainPerSecond: 200 };
  await turnAttempts(
    db,
    clientToken,
    { wanted: [{ ...first, mode: 'drain', mayUseAll: true }], nonce: 'another' },
    settings,
  );
}

/** Makes the owed assets wait for a retry. */
async function putOff({ db }: Stack, clientToken: string, owed: readonly ArrivedEvent[]): Promise<void> {
  const maxInFlight = owed.length * 2;
  const settings = { ...noSchedule, leaseMs: 1000, maxInFlight, drainPerSecond: 1_000_000 };
  await setClient(db, clientToken, { maxInFlight });
  const wanted = owed.map((one) => ({ ...one, mode: 'drain' as const, mayUseAll: true }));
  await turnAttempts(db, clientToken, { wanted, nonce: 'another' }, settings);
  const givenBack = owed.map(({ platformId }) => ({ platformId, token: 'another', inMs: 3_600_000 }));
  await turnAttempts(db, clientToken, { givenBack, nonce: 'another-2' }, settings);
  await setClient(db, clientToken, { maxInFlight: null });
}
