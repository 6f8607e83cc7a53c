import assert from 'node:assert/strict';
import { CancelledFailure } from '@temporalio/common';
import { getEndpoint, resumeEndpoint, setPaused } from '../../src/redis/records/endpoint.js';
import { type Receiver, startReceiver, until } from '../receiver.js';
import { type Harness, startHarness } from '../service.js';

describe('Terminating, cancelling or resetting any workflow loses nothing', () => {
  let h: Harness;
  let receiver: Receiver;

  beforeEach(async () => {
    h = await startHarness({ RETRY_SCHEDULE_SECONDS: '20,20,20', probeScheduleMs: [300, 500] });
    await h.startWorker();
    receiver = await startReceiver();
  });
  afterEach(async () => {
    await h.close();
    await receiver.close();
  });

  const delivered = (client: string, id: string) =>
    until(`${id} is delivered`, async () => (await h.notification(client, id))?.state === 'delivered');

  /** An event whose first attempt failed: its workflow sleeps until the retry. */
  async function retrying(): Promise<{ client: string; id: string }> {
    const client = await h.newClient(receiver.url);
    receiver.answer = () => 500;
    const { id } = await h.publish({ client, asset: 'a' });
    await until('settled', async () => ((await h.notification(client, id))?.attempts.length ?? 0) > 0);
    receiver.answer = () => 200;
    return { client, id };
  }

  it('enrichment cancelled while it waits for its retry: shown as cancelled, delivered by catch-up', async () => {
    const { client, id } = await retrying();
    const handle = await h.workflowOf(client, id);
    await until(
      'it waits for its retry',
      async () => (await handle.describe()).raw.pendingActivities?.length,
    );
    await handle.cancel();
    await assert.rejects(handle.result(), (err: Error) => err.cause instanceof CancelledFailure);
    assert.equal((await handle.describe()).status.name, 'CANCELLED');
    await until('catch-up runs', async () =>
      h.temporal.workflow
        .getHandle(h.ids.catchUp(client))
        .describe()
        .then((d) => d.status.name === 'RUNNING')
        .catch(() => false),
    );
    h.skip(30_000);
    await h.wake(client);
    await delivered(client, id);
  });

  it('enrichment terminated: the sweep finds its overdue assets', async () => {
    const { client, id } = await retrying();
    await (await h.workflowOf(client, id)).terminate('by a test');
    h.skip(120_000);
    await h.sweep();
    await delivered(client, id);
    assert.equal(new Set(receiver.idsOf('a')).size, 1);
  });

  describe('while no worker runs', () => {
    let apart: Harness;
    beforeEach(async () => {
      apart = await startHarness({}, 'worker');
    });
    afterEach(() => apart.close());

    const deliveredApart = (client: string, id: string) =>
      until(`${id} is delivered`, async () => (await apart.notification(client, id))?.state === 'delivered');

    it('enrichment cancelled before its first task: it still delivers', async () => {
      const client = await apart.newClient(receiver.url);
      const { id } = await apart.publish({ client, asset: 'a' });
      await (await apart.workflowOf(client, id)).cancel();
      await apart.startWorker();
      await deliveredApart(client, id);
    });
  });

  for (const how of ['cancel', 'terminate'] as const) {
    it(`catch-up: ${how}, then the sweep starts another`, async () => {
      const client = await h.newClient(receiver.url);
      await setPaused(h.db, client, true);
      const { id } = await h.publish({ client, asset: 'a' });
      const handle = h.temporal.workflow.getHandle(h.ids.catchUp(client));
      await until('catch-up waits', async () =>
        handle
          .describe()
          .then((d) => d.status.name === 'RUNNING')
          .catch(() => false),
      );
      if (how === 'cancel') await handle.cancel();
      else await handle.terminate('by a test');
      await until('it has ended', async () => (await handle.describe()).status.name !== 'RUNNING');
      await setPaused(h.db, client, false);
      h.skip(120_000);
      await until('the sweep sees it', async () => {
        await h.sweep();
        return (await h.notification(client, id))?.state === 'delivered';
      });
      assert.equal((await getEndpoint(h.db, client)).owed, 0);
    });
  }

  it('a worker lost during an attempt: the notification is sent again under the same id after its lease', async () => {
    const client = await h.newClient(receiver.url);
    receiver.answer = () => (receiver.received.length === 1 ? 'hang' : 200);
    const { id } = await h.publish({ client, asset: 'a' });
    await until('the first attempt is there', () => receiver.received.length === 1);
    h.skip(60_000);
    await h.sweep();
    await delivered(client, id);
    assert.equal(new Set(receiver.idsOf('a')).size, 1);
    assert.equal(await resumeEndpoint(h.db, client), false);
  });
});
