import assert from 'node:assert/strict';
import { Worker } from '@temporalio/worker';
import type { Activities } from '../../activities/index.js';
import { workflowBundlePath } from '../../src/temporal/bundle.js';
import { upkeepQueueOf, workflowIds } from '../../src/temporal/workflowIds.js';
import type { Drained } from '../../src/upkeep/drain.js';
import { until } from '../receiver.js';
import { startTimeSkippingServer, uniquePrefix } from '../servers.js';

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;
const dayMs = 24 * hourMs;

const clientToken = 'SITE0042';
const input = { args: [{ clientToken }] as [{ clientToken: string }] };
const idle = { owed: 0, replays: false, oldestAt: 0, inMs: 0, tookMs: 0, lastError: undefined };
const nothing: Drained = { ...idle, reason: 'due' };

/** The answers of drains are made up: the test checks when the workflow asks, by the server's clock. */
describe('Catch-up waits for days', () => {
  let skipping: TimeSkipping;
  let workflowId: string;
  before(async () => {
    skipping = await startTimeSkipping();
  });

  const memoNow = async () =>
    ((await skipping.env.client.workflow.getHandle(workflowId).describe()).memo ?? {}) as Record<
      string,
      unknown
    >;

  it('probes a client that is down for a weekend all the time, and keeps the reason when it continues as new', async () => {
    const everyMs = 30 * minuteMs;
    const friday = await skipping.now();
    const mondayAt = friday + 60 * hourMs;
    const asked: number[] = [];
    const waits = { owed: 3, oldestAt: friday, inMs: everyMs };
    const down: Drained = { ...nothing, ...waits, reason: 'failing', lastError: 'http_status 503' };
    const memos: unknown[] = [];
    await skipping.withWorkers(
      {
        async drain() {
          const now = await skipping.now();
          asked.push(now);
          // The text that an operator reads during the work, before this drain has reported.
          if (asked.length > 80) memos.push(await memoNow());
          return now < mondayAt ? down : nothing;
        },
      },
      async (taskQueue) => {
        workflowId = workflowIds(taskQueue).catchUp(clientToken);
        const { workflow } = skipping.env.client;
        const first = await workflow.start('catch-up', { workflowId, taskQueue, ...input });
        await first.result();
        const last = await workflow.getHandle(workflowId).describe();
        assert.equal(last.status.name, 'COMPLETED');
        assert.notEqual(last.runId, first.firstExecutionRunId, 'it went on as new');
      },
    );
    assert.ok((asked.at(-1) ?? 0) >= mondayAt, 'it ends when the client is back');
    const gaps = asked.slice(1).map((at, i) => at - (asked[i] as number));
    assert.ok(Math.min(...gaps) > everyMs - 5000, `a probe came after ${Math.min(...gaps)} ms`);
    assert.ok(Math.max(...gaps) < 2 * everyMs, `no probe for ${Math.max(...gaps)} ms`);
    assert.equal(memos.length, asked.length - 80);
    for (const memo of memos as Record<string, unknown>[]) {
      const { what, owed, since, why } = memo;
      assert.deepEqual([what, owed], [`Catch-up: what ${clientToken} is owed`, 3]);
      assert.equal(since, new Date(friday).toISOString());
      assert.equal(why, 'failing (last error: http_status 503)');
    }
  });

  it('counts the time that an answer waits, as after a kill', async () => {
    const planned: number[] = [];
    const drain = async (): Promise<Drained> => {
      planned.push(await skipping.now());
      if (planned.length === 2) return nothing;
      await skipping.env.sleep(10_000);
      return { ...nothing, owed: 1, inMs: minuteMs };
    };
    await skipping.withWorkers({ drain }, async (taskQueue) => {
      workflowId = workflowIds(taskQueue).catchUp(clientToken);
      const { workflow } = skipping.env.client;
      const handle = await workflow.start('catch-up', { workflowId, taskQueue, ...input });
      await handle.result();
      const { events = [] } = await handle.fetchHistory();
      const shown = events?.flatMap((one) => one.upsertWorkflowSearchAttributesEventAttributes ?? []).at(-1);
      assert.match(String(shown?.searchAttributes?.indexedFields?.NotificationState?.data), /delivered/);
    });
    const [first = 0, second = 0] = planned;
    assert.ok(Math.abs(second - first - minuteMs) < 5000, `${second - first} ms`);
  });

  it('goes on while a replay runs that owes nothing yet, and says so', async () => {
    const replaying: Drained = { ...nothing, replays: true, oldestAt: await skipping.now(), inMs: minuteMs };
    let answer = replaying;
    await skipping.withWorkers({ drain: async () => answer }, async (taskQueue) => {
      workflowId = workflowIds(taskQueue).catchUp(clientToken);
      const { workflow } = skipping.env.client;
      const handle = await workflow.start('catch-up', { workflowId, taskQueue, ...input });
      await skipping.env.sleep(5 * minuteMs);
      const { owed, since, why } = await memoNow();
      assert.deepEqual([owed, since, why], [0, undefined, 'a replay runs, due']);
      answer = nothing;
      await handle.result();
    });
  });

  it('plans a paused client when it said it would, and immediately when it is woken', async () => {
    const oldestAt = await skipping.now();
    const paused: Drained = { ...nothing, owed: 1, oldestAt, reason: 'paused', inMs: hourMs };
    let answer = paused;
    let looks = 0;
    const drain = async () => {
      looks++;
      return answer;
    };
    await skipping.withWorkers({ drain }, async (taskQueue) => {
      workflowId = workflowIds(taskQueue).catchUp(clientToken);
      const { workflow } = skipping.env.client;
      const handle = await workflow.start('catch-up', { workflowId, taskQueue, ...input });
      await skipping.env.sleep(2 * dayMs);
      assert.ok(looks >= 47 && looks <= 49, `${looks} looks in two days`);
      const { why, next } = await memoNow();
      assert.equal(why, 'paused');
      assert.ok(Date.parse(String(next)) > (await skipping.now()), String(next));
      answer = nothing;
      const before = looks;
      await handle.signal('wake');
      await until('it looks, and the clock stands still', () => looks > before);
    });
  });
});

type Fake = { [Name in keyof Activities]?: (...args: never[]) => Promise<unknown> };

type TimeSkipping = Awaited<ReturnType<typeof startTimeSkipping>>;

/** Runs the shipped workflows on the server whose clock skips, with activities of the test’s own. */
async function startTimeSkipping() {
  const env = await startTimeSkippingServer();
  const namespace = env.namespace ?? 'default';
  return {
    env,
    /** The server's clock, ms. */
    now: () => env.currentTimeMs(),
    /** While workers of all task queues run. */
    async withWorkers<T>(activities: Fake, work: (taskQueue: string) => Promise<T>): Promise<T> {
      const taskQueue = `${uniquePrefix()}queue`;
      const shared = { connection: env.nativeConnection, namespace, activities };
      const workflowBundle = { codePath: workflowBundlePath() };
      const workers = [
        await Worker.create({ ...shared, taskQueue, workflowBundle }),
        await Worker.create({ ...shared, taskQueue: upkeepQueueOf(taskQueue) }),
      ];
      const done = work(taskQueue);
      await Promise.all(workers.map((worker) => worker.runUntil(done)));
      return await done;
    },
  };
}
