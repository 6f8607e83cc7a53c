import assert from 'node:assert/strict';
import { setPaused } from '../../src/redis/records/endpoint.js';
import { until } from '../receiver.js';
import { opened } from '../servers.js';
import { startHarness, useHarness } from '../service.js';

describe('Terminating or cancelling any workflow loses nothing', () => {
  const scene = useHarness({ RETRY_SCHEDULE_SECONDS: '20', probeScheduleMs: [300, 500] });

  const statusOfCatchUp = async () => (await scene.h.catchUpRun(scene.client))?.status.name;
  const catchUpRuns = () => until('catch-up runs', async () => (await statusOfCatchUp()) === 'RUNNING');

  /** Publishes an event whose first attempt fails: its workflow sleeps until the retry. */
  async function retrying(): Promise<string> {
    const { h, receiver, client } = scene;
    receiver.answer = () => 500;
    const { id } = await h.publish({ client, asset: 'a' });
    await h.attempted(client, id);
    receiver.answer = () => 200;
    return id;
  }

  for (const how of ['cancel', 'terminate'] as const) {
    it(`enrichment while it waits for its retry: ${how}, then the sweep finds its overdue assets`, async () => {
      const { h, receiver, client } = scene;
      const id = await retrying();
      const handle = await h.workflowOf(client, id);
      await until('it waits', async () => (await handle.describe()).raw.pendingActivities?.length);
      await handle[how]();
      await assert.rejects(handle.result());
      assert.match((await handle.describe()).status.name, how === 'cancel' ? /CANCELLED/ : /TERMINATED/);
      h.skip(120_000);
      await h.sweep();
      await h.delivered(client, id);
      assert.equal(new Set(receiver.idsOf('a')).size, 1);
    });
  }

  for (const how of ['cancel', 'terminate', 'cannot be started'] as const) {
    it(`catch-up: ${how}, then the sweep starts another`, async () => {
      const { h, client } = scene;
      await setPaused(h.db, client, true);
      const { workflow } = h.temporal;
      if (how === 'cannot be started') workflow.signalWithStart = () => Promise.reject(new Error('away'));
      await h.publish({ client, asset: 'a' });
      Reflect.deleteProperty(workflow, 'signalWithStart');
      if (how !== 'cannot be started') {
        await catchUpRuns();
        await h.catchUp(client)[how]();
      }
      await until('none runs', async () => (await statusOfCatchUp()) !== 'RUNNING');
      // A drain that outlives its workflow may plan once more.
      await until('catch-up runs again', async () => {
        h.skip(2 * 3_600_000);
        await h.sweep();
        return (await statusOfCatchUp()) === 'RUNNING';
      });
    });
  }

  it('enrichment cancelled before its first task, while no worker runs: it still delivers', async () => {
    const { receiver } = scene;
    const apart = opened(await startHarness({}, 'worker'));
    const client = await apart.newClient(receiver.url);
    const { id } = await apart.publish({ client, asset: 'a' });
    assert.equal(receiver.received.length, 0);
    await (await apart.workflowOf(client, id)).cancel();
    await apart.startWorker();
    await apart.delivered(client, id);
  });
});
