import assert from 'node:assert/strict';
import { startTemporal } from '../../local/temporal.js';
import { Hands, TooBusy } from '../../src/delivery/hands.js';
import type { Outbox } from '../../src/delivery/outbox.js';
import type { Db } from '../../src/redis/connection/db.js';
import { globalKeys } from '../../src/redis/connection/keys.js';
import { joinProcesses, silentAfterMs } from '../../src/redis/records/processes.js';
import { platformIdKey } from '../../src/temporal/workflowIds.js';
import { StartBudget } from '../../src/temporal/workflowStarts.js';
import { enrichmentIds } from '../faults/walk.js';
import { whileStopped } from '../program.js';
import { begun, closeGate, startReceiver, succeeds, until } from '../receiver.js';
import { afterTest, forSuite, newFolder, opened, openForSuite, uniquePrefix, useOpened } from '../servers.js';
import { arrivedEvent, type Harness, startHarness, startWithWorker, useHarness } from '../service.js';
import { newOutbox } from './newOutbox.js';

/** The assets by which each workflow of this installation is found. */
async function assetsByWorkflow(h: Harness): Promise<Map<string, string[]>> {
  const found = new Map<string, string[]>();
  for await (const workflowId of enrichmentIds(h.temporal, h.taskQueue)) {
    const { typedSearchAttributes } = await h.temporal.workflow.getHandle(workflowId).describe();
    found.set(workflowId, typedSearchAttributes.get(platformIdKey) ?? []);
  }
  return found;
}

describe('Every accepted event is in a workflow, within WORKFLOWS_PER_SECOND', () => {
  const scene = useHarness({ WORKFLOWS_PER_SECOND: '2' });

  it('also in a burst of 50 events, which share a few workflows named in each record', async () => {
    const { h, client } = scene;
    const published = await h.publishAll(client, 'burst', 50);
    for (const id of published) await h.workflowOf(client, id);
    const workflows = await until('all are listed', async () => {
      const found = await assetsByWorkflow(h);
      return [...found.values()].flat().length >= published.length && found;
    });
    assert.ok(workflows.size >= 3 && workflows.size <= 6, `${workflows.size} workflows`);
    for (const [i, id] of published.entries()) {
      const { workflowId } = await h.workflowOf(client, id);
      assert.ok(workflows.get(workflowId)?.includes(`burst-${i}`), `${i} is in ${workflowId}`);
    }
    const alone = [...workflows.keys()].filter((workflowId) => !workflowId.includes('/group/'));
    assert.equal(alone.length, 2, 'what may be started at once has a workflow of its own');
  });

  it('also in a burst of the largest events, of which Temporal takes no 100 in one call', async () => {
    const { h, client } = scene;
    const segments = Array.from({ length: 200 }, (_, i) => `${i}`.padStart(128, '-'));
    const publish = (_: unknown, i: number) => h.publish({ client, asset: `large-${i}`, segments });
    for (const { id } of await Promise.all(Array.from({ length: 100 }, publish)))
      await h.workflowOf(client, id);
  });

  it('also a single event after a pause, in its own workflow', async () => {
    const { h, client } = scene;
    // The load has a pause, in which places are saved up.
    await new Promise((resolve) => setTimeout(resolve, 1000));
    // In Markdown it would be a link in the Temporal UI.
    const asset = '[Sign in](https://evil.example) ``';
    const { id } = await h.publish({ client, asset });
    assert.equal((await h.notification(client, id))?.group, undefined);
    const handle = h.temporal.workflow.getHandle(h.ids.enrichment(client, id));
    await until('it has one of its own', () => succeeds(handle.describe()));
    const summary = await (await handle.describe()).staticSummary();
    assert.equal(summary, `asset-update of \`\`\` ${asset} \`\`\` to \`${client}\``);
    assert.equal((await handle.result()).state, 'delivered');
  });
});

describe('The budget of starts', () => {
  const h = openForSuite(() => startHarness());

  /** Without the processes of other tests. `clock` moves the clock of the scripts. */
  function newDb() {
    const global = globalKeys(uniquePrefix());
    const clock = { skippedMs: 0 };
    const db: Db = { ...h.deps.db, global, clockOffsetMs: () => clock.skippedMs };
    return { db, key: global.processes, clock };
  }

  async function isShared(): Promise<void> {
    const { db, key } = newDb();
    const first = await joinProcesses(db, h.deps.log);
    const second = await joinProcesses(db, h.deps.log);
    assert.equal(second.count(), 2);
    await second.close();
    const third = await joinProcesses(db, h.deps.log);
    assert.equal(third.count(), 2, 'the second has ended');
    await db.redis.zadd(key, Date.now() - silentAfterMs, 'killed');
    await until('the killed one is removed', async () => (await db.redis.zscore(key, 'killed')) === null);
    await until('it does not count', () => {
      assert.ok(first.count() >= 1 && third.count() >= 1, 'each counts itself');
      return first.count() + third.count() === 4;
    });

    const budget = new StartBudget(8, () => 1);
    const halved = new StartBudget(8, () => 2);
    const taken = (one: StartBudget) => Array.from({ length: 20 }, () => one.take()).filter(Boolean).length;
    assert.deepEqual([taken(budget), taken(halved)], [8, 4]);
    await Promise.all([first.close(), third.close()]);
  }

  async function isKept(): Promise<void> {
    const lose = async (own: ReturnType<typeof newDb>, happens: () => unknown) => {
      const both = [await joinProcesses(own.db, h.deps.log), await joinProcesses(own.db, h.deps.log)];
      await until('both know each other', () => both.every((one) => one.count() === 2));
      await happens();
      const since = Date.now() + own.db.clockOffsetMs();
      await until('both have said it again', async () => {
        for (const one of both) assert.equal(one.count(), 2);
        const saidAgain = await own.db.redis.zcount(own.key, since, 'inf');
        return saidAgain === 2;
      });
      for (const one of both) assert.equal(one.count(), 2);
      await Promise.all(both.map((one) => one.close()));
    };
    const [away, lost] = [newDb(), newDb()];
    await Promise.all([
      lose(away, () => Object.assign(away.clock, { skippedMs: silentAfterMs + 1000 })),
      lose(lost, () => lost.db.redis.del(lost.key)),
    ]);
  }

  let shared: Promise<void>;
  let kept: Promise<void>;
  before(() => {
    shared = begun(isShared());
    kept = begun(isKept());
  });
  it('is shared equally by the processes that run, also after one has ended or was killed', () => shared);
  it('is not exceeded after Redis was away or has lost its data, while not all have said that they run', () =>
    kept);

  it('is left to the other processes by one that stops, before its workers have ended', async () => {
    const { db, delivering } = opened(await startHarness());
    assert.equal(await db.redis.zcard(db.global.processes), 1);
    await delivering.endStarts();
    assert.equal(await db.redis.zcard(db.global.processes), 0);
  });

  it('saves no starts for single events while others gather in a group', () => {
    const budget = new StartBudget(8, () => 1);
    assert.deepEqual([budget.take(), budget.takeAll(), budget.take()], [true, true, false]);
  });

  /** Starts no single event after its first. @param started the events of each workflow */
  const slowOutbox = (started: number[], given: Partial<Outbox['deps']> = {}) =>
    opened(
      newOutbox(h.temporal, {
        workflowsPerSecond: 0.001,
        metrics: { started: (events) => void started.push(events), withoutWorkflow: () => assert.fail() },
        ...given,
      }),
    );

  it('makes no group wait for the claim of another client, whose event goes into the next', async () => {
    const started: number[] = [];
    const moved: string[] = [];
    const outbox = slowOutbox(started, {
      workflowsPerSecond: 1,
      onMoved: ({ platformId }) => moved.push(platformId),
    });
    const [own, ...others] = ['own', 'claimed', 'hangs'].map((asset) => {
      const event = arrivedEvent('a-client', asset);
      return { reservation: outbox.reserve(event), event: { ...event, claim: 1 } };
    });
    for (const one of [own, others[0]]) one?.reservation?.fill(one.event);
    await until('its group has started', () => started.length === 2);
    others[1]?.reservation?.fill(others[1].event);
    await until('it is in another', () => started.length === 3);
    assert.deepEqual([moved, outbox.waiting()], [['hangs'], 0]);
  });

  it('closes no group that was just opened, when the one before it is full', async () => {
    const started: number[] = [];
    const outbox = slowOutbox(started, { workflowsPerSecond: 50, delivers: true });
    // However slow this machine is, none has gathered for long before all are there.
    const [now, begunAt] = [performance.now, performance.now()];
    let passedMs = 0;
    performance.now = () => begunAt + passedMs;
    afterTest(() => Object.assign(performance, { now }));
    for (let i = 0; i < 2_100; i++) {
      const event = arrivedEvent('full', `full-${i}`);
      outbox.reserve(event)?.fill({ ...event, claim: 1 });
      // The budget allows another start meanwhile.
      if (i % 100 === 0) await new Promise((resolve) => setTimeout(resolve, 10));
      if (i % 100 === 0) passedMs += 10;
    }
    performance.now = now;
    await until('all have started', () => outbox.waiting() === 0);
    const groups = started.filter((events) => events > 1).sort((a, b) => b - a);
    assert.deepEqual(groups.slice(0, -1), groups.slice(0, -1).fill(500), 'only the last is not full');
  });

  it('does not hold back a full group, however long the next start is away', async () => {
    const started: number[] = [];
    const warnings: string[] = [];
    const note = ({ name }: Error) => warnings.push(name);
    process.on('warning', note);
    afterTest(() => process.off('warning', note));
    const outbox = slowOutbox(started, { workflowsPerSecond: 1e-7 });
    outbox.reserve(arrivedEvent('full', 'none'))?.fill(undefined);
    assert.equal(outbox.waiting(), 0, 'what makes no notification leaves its place');
    const tickets = Array.from({ length: 1_101 }, (_, i) => {
      const event = arrivedEvent('full', `full-${i}`);
      return { ticket: outbox.reserve(event), claimed: { ...event, claim: 1 } };
    });
    for (const { ticket, claimed } of tickets) ticket?.fill(claimed);
    await until('two full groups have started', () => started.length === 3);
    assert.deepEqual(started.sort(), [1, 500, 500]);
    assert.deepEqual([outbox.waiting(), warnings], [100, []]);
    await outbox.close();
    assert.equal(outbox.waiting(), 0, 'the end starts the rest');
  });
});

describe('While Temporal is unavailable no answer changes and no delivery is delayed', function () {
  this.timeout(120_000);
  const ofSuite = useOpened();
  const temporal = forSuite(async () => ofSuite(await startTemporal({ dir: await newFolder() })));
  const h = forSuite(async () => ofSuite(await startWithWorker({ TEMPORAL_ADDRESS: temporal.address })));
  const receiver = forSuite(() => startReceiver());
  let client: string;
  before(async () => {
    client = await h.newClient(receiver.url);
  });

  async function inWorkflows(published: string[]): Promise<void> {
    await until('nothing waits for Temporal', () => h.delivering.outbox.waiting() === 0, 60_000);
    for (const id of published) {
      const result = await (await h.workflowOf(client, id)).result();
      assert.ok(result.state === 'delivered' || result.delivered === result.events, JSON.stringify(result));
    }
  }

  it('when it is stopped: events are answered and delivered, and in workflows once it continues', async () => {
    const published: string[] = [];
    await whileStopped(temporal.pid, async () => {
      for (let i = 0; i < 30; i++) published.push(...(await h.publishAll(client, `stopped-${i}`, 2)));
      for (const id of published) await h.delivered(client, id);
      assert.ok(h.delivering.outbox.waiting() > 0);
    });
    await inWorkflows(published);
    assert.equal(receiver.received.length, published.length, 'each once');
  });

  it('a repeated event takes no second place while it waits for its workflow', async () => {
    const { outbox } = h.delivering;
    await until('nothing waits', () => outbox.waiting() === 0);
    const gate = closeGate(receiver);
    afterTest(gate.open);
    const given = Array.from({ length: 12 }, (_, i) => ({
      client,
      asset: `again-${i}`,
      eventId: `again-${i}`,
      segments: ['x'],
    }));
    const published = await whileStopped(temporal.pid, async () => {
      const ids = await Promise.all(given.map(async (one) => (await h.publish(one)).id));
      for (let i = 0; i < 3; i++) for (const one of given) await h.publish(one);
      assert.equal(outbox.waiting(), given.length);
      return ids;
    });
    gate.open();
    await inWorkflows(published);
    const times = async (asset: string) =>
      [...(await assetsByWorkflow(h)).values()].flat().filter((other) => other === asset).length;
    for (const { asset } of given)
      await until('it is in one workflow', async () => (await times(asset)) === 1);
    assert.equal(outbox.waiting(), 0);
  });

  it('an event is refused while 10,000 others wait for Redis', async () => {
    const redis = Object.assign(Object.create(h.db.redis), { call: () => new Promise(() => undefined) });
    const outbox = { reserve: () => undefined, delivered() {} };
    const hands = new Hands({ ...h.delivering.hands.deps, outbox, db: { ...h.db, redis } });
    for (let i = 0; i < 10_000; i++) void hands.accept(arrivedEvent('waiting', `vid-${i}`));
    await assert.rejects(hands.accept(arrivedEvent('waiting', 'one-more')), TooBusy);
  });

  it('events that the outbox cannot hold are still delivered, and counted as without a workflow', async () => {
    let without = 0;
    const outbox = newOutbox(h.temporal, {
      taskQueue: h.taskQueue,
      workflowsPerSecond: 10,
      eager: () => true,
      maxQueuedBytes: 2700,
      metrics: {
        started() {},
        withoutWorkflow(events) {
          without += events;
        },
      },
    });
    const hands = new Hands({ ...h.delivering.hands.deps, outbox });
    const events = Array.from({ length: 12 }, (_, i) => arrivedEvent(client, `beyond-${i}`));
    await whileStopped(temporal.pid, async () => {
      const claims = await Promise.all(events.map((event) => hands.accept(event)));
      assert.deepEqual(new Set(claims.map(({ kind }) => kind)), new Set(['claimed']));
      for (const { platformId } of events) {
        await until(`${platformId} is received`, () => receiver.idsOf(platformId).length === 1);
      }
      assert.deepEqual([outbox.waiting(), without], [5, 7]);
    });
    await until('the others are in workflows', () => outbox.waiting() === 0, 60_000);
    assert.equal(without, 7);
    await outbox.close();
  });
});
