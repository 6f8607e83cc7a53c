/**
 * Records one history of each shape of workflow, from real runs, beside this file:
 *
 *     npm run build && npx tsx test/histories/record.ts
 *
 * Run it when a workflow's code takes a new way. Add to what is here rather than replace it: a release replays what
 * the releases before it have begun, and test/workflows/replay.test.ts replays these.
 */
import { mkdir, writeFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import { join } from 'node:path';
import type { Client } from '@temporalio/client';
import { historyToJSON } from '@temporalio/common/lib/proto-utils.js';
import { getEndpoint, pauseEndpoint } from '../../src/store/endpoint.js';
import { startRedeliver } from '../../src/temporal/redeliver.js';
import { type Harness, type Receiver, startHarness, startReceiver, until } from '../delivery/harness.js';
import { mochaGlobalSetup, mochaGlobalTeardown } from '../servers.js';

const shapes: Record<string, (h: Harness, receiver: Receiver) => Promise<string>> = {
  'enrichment-delivered': async (h, receiver) => {
    const client = await h.newClient(receiver.url);
    const { id } = await h.publish({ client, asset: 'a' });
    return h.ids.enrichment(client, id);
  },

  'enrichment-retried-then-left-to-catch-up': async (h, receiver) => {
    const client = await h.newClient(receiver.url);
    receiver.answer = () => 500;
    const { id } = await h.publish({ client, asset: 'a' });
    return h.ids.enrichment(client, id);
  },

  'enrichment-delivered-by-a-retry': async (h, receiver) => {
    const client = await h.newClient(receiver.url);
    receiver.answer = () => (receiver.received.length === 1 ? 503 : 200);
    const { id } = await h.publish({ client, asset: 'a' });
    return h.ids.enrichment(client, id);
  },

  'enrichment-cancelled-while-it-retries': async (h, receiver) => {
    const client = await h.newClient(receiver.url);
    receiver.answer = () => ({ status: 503, headers: { 'retry-after': '600' } });
    const { id } = await h.publish({ client, asset: 'a' });
    await until('attempted', () => receiver.received.length === 1);
    await h.temporal.workflow.getHandle(h.ids.enrichment(client, id)).cancel();
    return h.ids.enrichment(client, id);
  },

  'enrichment-group-of-several-clients': async (h, receiver) => {
    const [well, sick, paused, slow] = [
      await h.newClient(receiver.url),
      await h.newClient(`${receiver.url}/sick`),
      await h.newClient(receiver.url),
      await h.newClient(`${receiver.url}/slow`),
    ];
    await pauseEndpoint(h.db, paused);
    receiver.answer = (r) => (r.path.endsWith('/sick') ? 500 : r.path.endsWith('/slow') ? 'hang' : 200);
    await Promise.all([
      ...[1, 2, 3].map((n) => h.publish({ client: well, asset: `well-${n}` })),
      ...[1, 2].map((n) => h.publish({ client: sick, asset: `sick-${n}` })),
      h.publish({ client: paused, asset: 'paused' }),
      h.publish({ client: slow, asset: 'slow' }),
      h.publish({ client: well, asset: 'backfill', priority: 'backfill' }),
      h.publish({ client: well, asset: 'well-4' }),
    ]);
    return await until('a group is listed', () => largestGroup(h.temporal, h.taskQueue));
  },

  'catch-up-probes-then-drains': async (h, receiver) => {
    const client = await h.newClient(receiver.url);
    receiver.answer = () => 500;
    for (let n = 0; n < 8; n++) await h.publish({ client, asset: `asset-${n}` });
    await until('failing', async () => (await getEndpoint(h.db, client)).state === 'failing');
    const before = receiver.received.length;
    await until('probed', () => receiver.received.length >= before + 2);
    receiver.answer = () => 200;
    return await until('catch-up runs', async () => {
      const id = h.ids.catchUp(client);
      return (
        (await h.temporal.workflow
          .getHandle(id)
          .describe()
          .catch(() => undefined)) && id
      );
    });
  },

  redeliver: async (h, receiver) => {
    const client = await h.newClient(receiver.url);
    const { id } = await h.publish({ client, asset: 'a' });
    await until('delivered', async () => (await h.notification(client, id))?.state === 'delivered');
    receiver.answer = () => (receiver.received.length < 3 ? 500 : 200);
    await startRedeliver(
      h.temporal,
      { clientToken: client, platformId: 'a', notificationId: id },
      h.taskQueue,
    );
    return h.ids.redeliver(client, id);
  },

  sweep: async (h, receiver) => {
    const client = await h.newClient(receiver.url);
    await pauseEndpoint(h.db, client);
    await h.publish({ client, asset: 'a' });
    const workflowId = `sweep/${h.taskQueue}`;
    await h.temporal.workflow.start('sweep', { workflowId, taskQueue: h.taskQueue, args: [] });
    return workflowId;
  },
};

await mochaGlobalSetup();
try {
  for (const [name, play] of Object.entries(shapes)) await record(name, play);
} finally {
  await mochaGlobalTeardown();
}

async function record(
  name: string,
  play: (h: Harness, receiver: Receiver) => Promise<string>,
): Promise<void> {
  const h = await startHarness({
    RETRY_SCHEDULE_SECONDS: '0.2,0.2,0.2,0.5',
    PROBE_SCHEDULE_SECONDS: '0.3',
    ATTEMPT_TIMEOUT_SECONDS: '1',
  });
  const receiver = await startReceiver();
  try {
    await h.startWorker();
    const handle = h.temporal.workflow.getHandle(await play(h, receiver));
    await handle.result();
    await mkdir(import.meta.dirname, { recursive: true });
    const text = withoutMachine(historyToJSON(await handle.fetchHistory()));
    await writeFile(join(import.meta.dirname, `${name}.json`), `${text}\n`);
    console.log(`${name}: ${(JSON.parse(text) as { events: unknown[] }).events.length} events`);
  } finally {
    await receiver.close();
    await h.close();
  }
}

async function largestGroup(temporal: Client, taskQueue: string): Promise<string | undefined> {
  let largest: { workflowId: string; length: number } | undefined;
  const query = `WorkflowType = 'enrichment' AND TaskQueue = '${taskQueue}'`;
  for await (const { workflowId } of temporal.workflow.list({ query })) {
    if (!workflowId.startsWith('enrichment/group/')) continue;
    const { length } = JSON.stringify(await temporal.workflow.getHandle(workflowId).fetchHistory());
    if (largest === undefined || length > largest.length) largest = { workflowId, length };
  }
  return largest?.workflowId;
}

/** Process and host names say nothing that a replay needs. */
function withoutMachine(history: string): string {
  return history
    .replaceAll(/"(identity|workerIdentity)": *"[^"]*"/g, '"$1": "worker"')
    .replaceAll(`${process.pid}@${hostname()}`, 'worker');
}
