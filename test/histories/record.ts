/**
 * Records one history of each shape of workflow, from real runs, into the folder of the present version:
 *
 *     npm run build && npx tsx test/histories/record.ts
 *
 * It records the shapes whose file is missing there, and writes over none: a history stays until the release after the next minor one
 * (docs/releases.md). test/workflows/replay.test.ts replays all of them.
 */
import { existsSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import { dirname, join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { WorkflowFailedError, type WorkflowHandle } from '@temporalio/client';
import { historyToJSON } from '@temporalio/common/lib/proto-utils.js';
import { product } from '../../src/product.js';
import { setPaused } from '../../src/redis/records/endpoint.js';
import { type Receiver, startReceiver, until } from '../receiver.js';
import { mochaGlobalSetup, mochaGlobalTeardown, mochaHooks, startServers } from '../servers.js';
import { type Harness, startHarness } from '../service.js';

/** Returns the workflow's id once it will end by itself, and its run if a later one follows. */
type Shape = (h: Harness, receiver: Receiver) => Promise<string | { workflowId: string; runId: string }>;

/** Catch-up then continues as new after a few probes. */
const suggestAfterEvents = 40;

/** Publishes one event to a receiver with these answers. */
const single =
  (answers: Partial<Receiver>, then?: (handle: WorkflowHandle) => Promise<void>): Shape =>
  async (h, receiver) => {
    const client = await h.newClient(receiver.url);
    Object.assign(receiver, answers);
    const { id } = await h.publish({ client, asset: 'a' });
    const handle = await h.workflowOf(client, id);
    await then?.(handle);
    return handle.workflowId;
  };
/** Answers 503 to the first request. */
const failsOnce = () => {
  let requests = 0;
  return () => (++requests === 1 ? 503 : 200);
};
/** Fails eight events of a client, which is enough for its endpoint to be failing. */
async function failMany(h: Harness, receiver: Receiver): Promise<string> {
  const client = await h.newClient(receiver.url);
  receiver.answer = () => 500;
  for (let n = 0; n < 8; n++) await h.publish({ client, asset: `asset-${n}` });
  return client;
}

const shapes: Record<string, Shape> = {
  'enrichment-delivered-at-once': single({}),
  'enrichment-awaits-a-slow-receiver': single({ delayMs: 2000 }),
  'enrichment-of-a-receiver-that-fails-slowly': single({ delayMs: 1500, answer: failsOnce() }),
  'enrichment-retried-then-handed-to-catch-up': single({ answer: () => 500 }),
  'enrichment-delivered-by-its-retry': single({ answer: failsOnce() }),
  'enrichment-cancelled-while-it-is-awaited': single({ delayMs: 2500 }, async (handle) => {
    await until('it is awaited', async () => (await handle.describe()).raw.pendingActivities?.length);
    await handle.cancel();
  }),

  'enrichment-of-several-clients': async (h, receiver) => {
    const [well, sick, paused, slow] = [
      await h.newClient(receiver.url),
      await h.newClient(`${receiver.url}/sick`),
      await h.newClient(receiver.url),
      await h.newClient(`${receiver.url}/slow`),
    ];
    await setPaused(h.db, paused, true);
    receiver.answer = (r) => (r.path.endsWith('/sick') ? 500 : r.path.endsWith('/slow') ? 'hang' : 200);
    // What a process may start at once is used up.
    await Promise.all(Array.from({ length: 10 }, (_, n) => h.publish({ client: well, asset: `alone-${n}` })));
    const published = await Promise.all([
      ...[1, 2, 3].map((n) => h.publish({ client: well, asset: `well-${n}` })),
      ...[1, 2].map((n) => h.publish({ client: sick, asset: `sick-${n}` })),
      h.publish({ client: paused, asset: 'paused' }),
      h.publish({ client: slow, asset: 'slow' }),
      h.publish({ client: well, asset: 'backfill', priority: 'backfill' }),
      h.publish({ client: well, asset: 'well-4' }),
    ]);
    return (await h.workflowOf(well, published[0]?.id ?? '')).workflowId;
  },

  'catch-up-says-why-then-drains': async (h, receiver) => {
    const client = await failMany(h, receiver);
    await until('failing', async () => (await h.endpoint(client)).state === 'failing');
    const before = receiver.received.length;
    await until('probed', () => receiver.received.length >= before + 2);
    receiver.answer = () => 200;
    return (await until('catch-up runs', () => h.catchUpRun(client))).workflowId;
  },

  'catch-up-continues-as-new': async (h, receiver) => {
    const client = await failMany(h, receiver);
    const handle = h.catchUp(client);
    const first = await until('catch-up runs', () => h.catchUpRun(client));
    await until('it continues as new', async () => (await handle.describe()).runId !== first.runId);
    receiver.answer = () => 200;
    return { workflowId: handle.workflowId, runId: first.runId };
  },

  sweep: async (h, receiver) => {
    const client = await h.newClient(receiver.url);
    await setPaused(h.db, client, true);
    await h.publish({ client, asset: 'a' });
    const workflowId = `sweep/${h.taskQueue}`;
    await h.temporal.workflow.start('sweep', { workflowId, taskQueue: h.taskQueue, args: [] });
    return workflowId;
  },
};

const { servers, stop } = await startServers([
  '--dynamic-config-value',
  `limit.historyCount.suggestContinueAsNew=${suggestAfterEvents}`,
]);
process.env.TEST_SERVERS = JSON.stringify(servers);
await mochaGlobalSetup();
mochaHooks.beforeAll();
try {
  for (const [name, shape] of Object.entries(shapes)) {
    if (!existsSync(fileOf(name))) await record(name, shape);
  }
} finally {
  await mochaGlobalTeardown();
  await stop();
}

async function record(name: string, play: Shape): Promise<void> {
  const h = await startHarness({
    RETRY_SCHEDULE_SECONDS: '1.5',
    probeScheduleMs: [300],
    ATTEMPT_TIMEOUT_SECONDS: '3',
  });
  const receiver = await startReceiver();
  try {
    await h.startWorker();
    const played = await play(h, receiver);
    const { workflowId, runId } =
      typeof played === 'string' ? { workflowId: played, runId: undefined } : played;
    const handle = h.temporal.workflow.getHandle(workflowId, runId);
    // One was cancelled.
    await handle.result().catch((err: unknown) => {
      if (!(err instanceof WorkflowFailedError)) throw err;
    });
    const text = withoutMachine(historyToJSON(await handle.fetchHistory()));
    const { events } = JSON.parse(text) as { events: unknown[] };
    await mkdir(dirname(fileOf(name)), { recursive: true });
    await writeFile(fileOf(name), gzipSync(JSON.stringify({ events })));
    console.log(`${name}: ${events.length} events`);
  } finally {
    await h.close();
  }
}

function fileOf(name: string): string {
  return join(import.meta.dirname, product.version, `${name}.json.gz`);
}

/** Process and host names say nothing that a replay needs. */
function withoutMachine(history: string): string {
  return history
    .replaceAll(/"(identity|workerIdentity)": *"[^"]*"/g, '"$1": "worker"')
    .replaceAll(`${process.pid}@${hostname()}`, 'worker');
}
