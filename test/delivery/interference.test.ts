import assert from 'node:assert/strict';
import { CancelledFailure } from '@temporalio/common';
import { getEndpoint, setPaused } from '../../src/redis/records/endpoint.js';
import { type Receiver, startReceiver, until } from '../receiver.js';
import { type Harness, startHarness } from '../service.js';

describe('Terminating or cancelling any workflow loses nothing', () => {
  let h: Harness;
  let receiver: Receiver;
  let client: string;

  before(async () => {
    h = await startHarness({ RETRY_SCHEDULE_SECONDS: '20,20,20', probeScheduleMs: [300, 500] });
    await h.startWorker();
  });
  after(() => h.close());
  beforeEach(async () => {
    receiver = await startReceiver();
    client = await h.newClient(receiver.url);
  });
  afterEach(() => receiver.close());

  const catchUp = () => h.temporal.workflow.getHandle(h.ids.catchUp(client));
  const catchUpRuns = () =>
    until('catch-up runs', async () =>
      catchUp()
        .describe()
        .then((d) => d.status.name === 'RUNNING')
        .catch(() => false),
    );

  /** Publishes an event whose first attempt fails: its workflow sleeps until the retry. */
  async function retrying(): Promise<string> {
    receiver.answer = () => 500;
    const { id } = await h.publish({ client, asset: 'a' });
    await until('settled', async () => ((await h.notification(client, id))?.attempts.length ?? 0) > 0);
    receiver.answer = () => 200;
    return id;
  }

  it('enrichment cancelled while it waits for its retry: shown as cancelled, delivered by catch-up', async () => {
    const id = await retrying();
    const handle = await h.workflowOf(client, id);
    await until(
      'it waits for its retry',
      async () => (await handle.describe()).raw.pendingActivities?.length,
    );
    await handle.cancel();
    await assert.rejects(handle.result(), (err: Error) => err.cause instanceof CancelledFailure);
    assert.equal((await handle.describe()).status.name, 'CANCELLED');
    await catchUpRuns();
    h.skip(30_000);
    await h.wake(client);
    await h.delivered(client, id);
  });

  it('enrichment terminated: the sweep finds its overdue assets', async () => {
    const id = await retrying();
    await (await h.workflowOf(client, id)).terminate('by a test');
    h.skip(120_000);
    await h.sweep();
    await h.delivered(client, id);
    assert.equal(new Set(receiver.idsOf('a')).size, 1);
  });

  for (const how of ['cancel', 'terminate'] as const) {
    it(`catch-up: ${how}, then the sweep starts another`, async () => {
      await setPaused(h.db, client, true);
      const { id } = await h.publish({ client, asset: 'a' });
      await catchUpRuns();
      if (how === 'cancel') await catchUp().cancel();
      else await catchUp().terminate('by a test');
      await until('it has ended', async () => (await catchUp().describe()).status.name !== 'RUNNING');
      await setPaused(h.db, client, false);
      h.skip(120_000);
      await until('the sweep sees it', async () => {
        await h.sweep();
        return (await h.notification(client, id))?.state === 'delivered';
      });
      assert.equal((await getEndpoint(h.db, client)).owed, 0);
    });
  }

  it('enrichment cancelled before its first task, while no worker runs: it still delivers', async () => {
    const apart = await startHarness({}, 'worker');
    try {
      const client = await apart.newClient(receiver.url);
      const { id } = await apart.publish({ client, asset: 'a' });
      assert.equal(receiver.received.length, 0);
      await (await apart.workflowOf(client, id)).cancel();
      await apart.startWorker();
      await apart.delivered(client, id);
    } finally {
      await apart.close();
    }
  });
});
