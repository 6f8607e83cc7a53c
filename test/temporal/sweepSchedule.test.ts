import assert from 'node:assert/strict';
import { type Client, Connection, ScheduleOverlapPolicy } from '@temporalio/client';
import { pino } from 'pino';
import { readConfig } from '../../src/config.js';
import { createTemporalClient } from '../../src/temporal/connection.js';
import { createSweepSchedule } from '../../src/temporal/sweepSchedule.js';
import { until } from '../receiver.js';
import { servers, uniquePrefix } from '../servers.js';
import { type Json, keptLog } from '../service.js';

describe('The schedule of the sweep', () => {
  let connection: Connection;
  let temporal: Client;
  let taskQueue: string;
  let schedule: ReturnType<typeof createSweepSchedule>;
  let said: Json[];

  before(async () => {
    connection = await Connection.connect({ address: servers().temporalAddress });
    temporal = createTemporalClient(connection, readConfig({}));
  });
  after(() => connection.close());
  beforeEach(() => {
    taskQueue = uniquePrefix();
    const { log, lines } = keptLog('info');
    said = lines;
    schedule = createSweepSchedule(temporal, taskQueue, log);
  });
  afterEach(() => handle().delete());

  const handle = () => temporal.schedule.getHandle(`sweep/${taskQueue}`);

  it('is created once by any number of starting workers, and left alone if it is as it should be', async () => {
    const others = [1, 2, 3].map(() => createSweepSchedule(temporal, taskQueue, pino({ level: 'silent' })));
    await Promise.all([schedule, ...others].map((each) => each.ensure()));
    await schedule.ensure();
    assert.deepEqual(said, []);
    assert.equal((await handle().describe()).info.lastUpdatedAt, undefined);
    assert.equal(schedule.isPaused(), false);
  });

  it('starts sweeps that go before enrichments, where these wait for a worker', async () => {
    for (let i = 0; i < 60; i++) {
      await temporal.workflow.start('enrichment', { workflowId: `${taskQueue}/${i}`, taskQueue });
    }
    await schedule.ensure();
    await until('the sweep has started', async () => (await handle().describe()).info.numActionsTaken > 0);
    const { workflowService } = connection;
    const task = { namespace: 'default', taskQueue: { name: taskQueue }, identity: 'test' };
    let polled = 0;
    const nextType = () => {
      polled++;
      return connection.withDeadline(Date.now() + 10_000, () => workflowService.pollWorkflowTaskQueue(task));
    };
    // A poll asks one of the queue's four partitions.
    while ((await nextType()).workflowType?.name !== 'sweep') assert.ok(polled < 40);
  });

  it('is repaired if it was changed by hand: interval, policies, action, arguments, end', async () => {
    await temporal.schedule.create({
      scheduleId: `sweep/${taskQueue}`,
      spec: {
        intervals: [{ every: '1h' }],
        endAt: new Date(Date.now() + 86_400_000),
        jitter: '5m',
      },
      policies: { overlap: ScheduleOverlapPolicy.ALLOW_ALL, catchupWindow: '1d', pauseOnFailure: true },
      action: {
        type: 'startWorkflow',
        workflowType: 'sweepOfOld',
        workflowId: `old-sweep/${taskQueue}`,
        taskQueue: `${taskQueue}old`,
        args: [{ an: 'argument' }],
      },
      state: { remainingActions: 1 },
    });
    await schedule.ensure();
    const mended = await handle().describe();
    assert.deepEqual(mended.spec.intervals, [{ every: 15_000, offset: 0 }]);
    assert.deepEqual([mended.spec.endAt, mended.spec.jitter ?? 0], [undefined, 0]);
    assert.deepEqual(mended.policies, { overlap: 'SKIP', catchupWindow: 60_000, pauseOnFailure: false });
    const { workflowType, workflowId, args, workflowExecutionTimeout } = mended.action;
    assert.deepEqual(
      [workflowType, workflowId, mended.action.taskQueue, args ?? [], workflowExecutionTimeout],
      ['sweep', `sweep/${taskQueue}`, taskQueue, [], 600_000],
    );
    assert.equal(mended.state.remainingActions, undefined);
    const messages = said.map(({ msg }) => msg);
    assert.deepEqual(messages, ['the schedule of the sweep was outdated or changed; it is repaired']);
    await schedule.ensure();
    assert.equal(said.length, 1, 'as it should be now');
  });

  it('is reported once with the reason if somebody has paused it, and stays paused until somebody resumes it', async () => {
    await schedule.ensure();
    await handle().pause('Ada: Redis is being moved');
    const paused = async () => (await handle().describe()).state.paused;
    await until('paused', paused);
    await schedule.ensure();
    await schedule.ensure();
    assert.equal(schedule.isPaused(), true);
    assert.equal(await paused(), true);
    const line = 'the schedule of the sweep is paused: owed assets that nothing works on are not found';
    const told = said.map(({ level, msg, note }) => [level, msg, note]);
    assert.deepEqual(told, [[50, line, 'Ada: Redis is being moved']]);
    await handle().unpause('Ada: done');
    await until('resumed', async () => !(await paused()));
    await schedule.ensure();
    assert.equal(schedule.isPaused(), false);
    assert.equal(said.at(-1)?.msg, 'the schedule of the sweep is no longer paused');
  });

  it('of another store is left alone, and told once by each worker; one that was emptied on purpose goes on', async () => {
    const of = (...stores: string[]) =>
      createSweepSchedule(temporal, taskQueue, keptLog('info').log, async () => stores);
    await of('ours').ensure();
    const { log, lines } = keptLog('info');
    const others = createSweepSchedule(temporal, taskQueue, log, async () => ['theirs']);
    for (let i = 0; i < 2; i++) await others.ensure();
    assert.match(
      JSON.stringify(lines),
      /^[^\n]*Another installation, with another store, uses the task queue [^\n]*$/,
    );
    assert.equal(lines.length, 1);
    const { action } = await handle().describe();
    assert.deepEqual(action.args, [{ store: 'ours' }]);
    await of('emptied', 'ours').ensure();
    assert.deepEqual((await handle().describe()).action.args, [{ store: 'emptied' }]);
  });
});
