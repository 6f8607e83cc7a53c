/**
 * Random events with faults on, then every one of them is accounted for: by a walk through Redis and Temporal, and by
 * what the receivers got. ACCOUNTED_EVENTS sets how many (1,000).
 */
import assert from 'node:assert/strict';
import { randomInt } from 'node:crypto';
import { getEndpoint, resumeEndpoint, setPaused } from '../../src/redis/records/endpoint.js';
import { fateOf } from '../faults/accounting.js';
import { walk } from '../faults/walk.js';
import { type Harness, type Receiver, startHarness, startReceiver, until } from './harness.js';

const events = Number(process.env.ACCOUNTED_EVENTS || 1000);
const clientCount = 6;
const assetsPerClient = 12;
const segmentsPerAsset = 60;

interface Published {
  clientToken: string;
  platformId: string;
  eventId: string;
  notificationId: string;
}

describe(`${events} random events with faults: every accepted event is accounted for`, function () {
  this.timeout(60_000 + events * 20);
  let h: Harness;
  /** Another process of the same installation, which ends while events come. */
  let other: Harness | undefined;
  const clients: { clientToken: string; receiver: Receiver }[] = [];
  const queued = new Map<string, Published>();
  let terminated = 0;

  before(async () => {
    const settings = {
      RETRY_SCHEDULE_SECONDS: '0.2,0.3,0.5',
      probeScheduleMs: [200, 300],
      ATTEMPT_TIMEOUT_SECONDS: '1',
    };
    h = await startHarness(settings);
    for (let i = 0; i < clientCount; i++) {
      const receiver = await startReceiver();
      clients.push({ clientToken: await h.newClient(receiver.url), receiver });
    }
    await h.startWorker();
    other = await startHarness({ ...settings, KEY_PREFIX: h.db.prefix, TASK_QUEUE: h.taskQueue });
    await other.startWorker();
  });
  after(async () => {
    await other?.close();
    await h.close();
    await Promise.all(clients.map(({ receiver }) => receiver.close()));
  });

  it('nothing is missing after endpoints went up and down, workers ended and workflows were terminated', async () => {
    let publishing = true;
    const moods = changeMoods(() => publishing);
    const terminations = terminateSome(() => publishing);
    let left = events;
    const publishers = Array.from({ length: 24 }, async () => {
      while (left-- > 0) {
        await publishOne();
        await new Promise((resolve) => setTimeout(resolve, randomInt(100)));
      }
    });
    await until('some are published', () => left < events * 0.8, 120_000);
    await h.stopWorker();
    await until('more are published', () => left < events * 0.6, 120_000);
    await h.startWorker();
    await until('more are published', () => left < events * 0.4, 120_000);
    const ending = other;
    other = undefined;
    await ending?.close();
    await Promise.all(publishers);
    publishing = false;
    await Promise.all([moods, terminations]);
    assert.ok(terminated > 0);
    await drained();

    const { found, states, events: inWorkflows } = await walk(h);
    console.log(`      ${terminated} workflows terminated; ${inWorkflows} events in workflows`, states);
    assert.deepEqual(found, []);
    const { delivered = 0, superseded = 0, ...others } = states;
    assert.equal(delivered + superseded, queued.size);
    assert.deepEqual(others, {});
    assert.ok(delivered > 0 && superseded > 0);
  });

  it('each notification was received, or a newer one of its asset', async () => {
    const arrivals = new Map<string, number[]>();
    for (const { receiver } of clients) {
      for (const { headers, at } of receiver.received) arrivals.set(String(headers['webhook-id']), [at]);
    }
    const fates = await Promise.all([...queued.values()].map((event) => fateOf(h.db, event, { arrivals })));
    const missing = fates.filter(({ kind }) => kind !== 'delivered' && kind !== 'superseded');
    assert.deepEqual(missing, []);
    for (const id of arrivals.keys()) assert.ok(queued.has(id), `${id} was received and never accepted`);
  });

  it('the walk finds what was deleted by hand, and nothing else', async () => {
    const client = await h.newClient(clients[0]?.receiver.url);
    await setPaused(h.db, client, true);
    const { id } = await h.publish({ client, asset: 'taken' });
    await h.publish({ client, asset: 'left' });
    await until('both are owed', async () => (await getEndpoint(h.db, client)).owed === 2);
    const keys = h.db.client(client);
    const { redis } = h.db;

    await redis.hdel(keys.owed, 'taken');
    assert.deepEqual((await walk(h)).found, [
      `${client} ${id} waits and is not owed`,
      `${client} taken is due and not owed`,
    ]);
    await redis.hset(keys.owed, 'taken', id);

    const due = await redis.zscore(keys.dueLive, 'taken');
    await redis.zrem(keys.dueLive, 'taken');
    assert.deepEqual((await walk(h)).found, [`${client} taken is owed and has no due time, or two`]);
    await redis.zadd(keys.dueLive, String(due), 'taken');
    assert.deepEqual((await walk(h)).found, []);

    await redis.rename(keys.notification(id), `${keys.base}aside`);
    const { found } = await walk(h);
    assert.ok(found.includes(`${client} ${id} has no record`), found.join());
  });

  async function publishOne(): Promise<void> {
    const { clientToken } = clients[randomInt(clientCount)] as { clientToken: string };
    const platformId = `video-${randomInt(assetsPerClient)}`;
    const eventId = `event-${randomInt(events * 10)}`;
    const { id, kind } = await (randomInt(2) === 0 ? h : (other ?? h)).publish({
      client: clientToken,
      asset: platformId,
      eventId,
      segments: Array.from({ length: randomInt(1, 4) }, () => `segment-${randomInt(segmentsPerAsset)}`),
      priority: randomInt(5) === 0 ? 'backfill' : 'live',
      notify: randomInt(20) !== 0,
    });
    if (kind !== 'queued') return;
    queued.set(id, { clientToken, platformId, eventId, notificationId: id });
    // Right after its start, where it has a workflow of its own.
    if (randomInt(30) === 0) await terminate(h.ids.enrichment(clientToken, id));
  }

  async function terminate(workflowId: string, runId?: string): Promise<void> {
    try {
      await h.temporal.workflow.getHandle(workflowId, runId).terminate('by a test');
      terminated++;
    } catch {
      // In a group, or ended before.
    }
  }

  async function terminateSome(going: () => boolean): Promise<void> {
    const query = `TaskQueue = '${h.taskQueue}' AND ExecutionStatus = 'Running'`;
    while (going()) {
      for await (const { workflowId, runId } of h.temporal.workflow.list({ query, pageSize: 100 })) {
        if (randomInt(2) === 0) await terminate(workflowId, runId);
      }
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }

  /** Each endpoint is well, broken, slow, gone or silent, for some tenths of a second at a time. */
  async function changeMoods(going: () => boolean): Promise<void> {
    while (going()) {
      const { clientToken, receiver } = clients[randomInt(clientCount)] as (typeof clients)[number];
      receiver.delayMs = randomInt(3) === 0 ? 300 : 0;
      const mood = ([200, 200, 200, 500, 429, 410, 'hang'] as const)[randomInt(7)] as number;
      receiver.answer = () => mood;
      if (randomInt(2) === 0) await resume(clientToken);
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }

  async function resume(clientToken: string): Promise<void> {
    await resumeEndpoint(h.db, clientToken);
    await h.wake(clientToken);
  }

  /** Every endpoint is well again; time is moved ahead, the sweep runs, until nothing is owed and nothing runs. */
  async function drained(): Promise<void> {
    for (const { clientToken, receiver } of clients) {
      receiver.answer = () => 200;
      receiver.delayMs = 0;
      await resume(clientToken);
    }
    const query = `TaskQueue = '${h.taskQueue}' AND WorkflowType != 'sweep' AND ExecutionStatus = 'Running'`;
    await until(
      'all is settled',
      async () => {
        h.skip(60_000);
        await h.sweep();
        const endpoints = await Promise.all(
          clients.map(async ({ clientToken }) => ({
            clientToken,
            ...(await getEndpoint(h.db, clientToken)),
          })),
        );
        for (const { clientToken, state } of endpoints) {
          // A 410 that was on its way when its endpoint was resumed.
          if (state === 'suspended') await resume(clientToken);
        }
        return (
          endpoints.every(({ owed }) => owed === 0) && (await h.temporal.workflow.count(query)).count === 0
        );
      },
      120_000,
    );
  }
});
