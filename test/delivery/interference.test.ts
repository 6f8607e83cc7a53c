import assert from 'node:assert/strict';
import { getEndpoint, pauseEndpoint, resumeEndpoint, unpauseEndpoint } from '../../src/store/endpoint.js';
import { catchUpId, wakeCatchUp } from '../../src/temporal/catchUp.js';
import { type Harness, type Receiver, startHarness, startReceiver, until } from './harness.js';

describe('Terminating, cancelling or resetting any workflow loses nothing', () => {
  let h: Harness;
  let receiver: Receiver;

  beforeEach(async () => {
    h = await startHarness({ RETRY_SCHEDULE_SECONDS: '20,20,20', PROBE_SCHEDULE_SECONDS: '0.3,0.5' });
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

  it('enrichment cancelled while it waits for its retry: left to catch-up', async () => {
    const { client, id } = await retrying();
    const handle = h.temporal.workflow.getHandle(`enrichment/${client}/${id}`);
    await handle.cancel();
    await handle.result();
    await until('catch-up runs', async () =>
      h.temporal.workflow
        .getHandle(catchUpId(client))
        .describe()
        .then((d) => d.status.name === 'RUNNING')
        .catch(() => false),
    );
    h.skip(30_000);
    await wakeCatchUp(h.temporal, h.db, client, { taskQueue: h.taskQueue });
    await delivered(client, id);
  });

  it('enrichment terminated: the sweep finds what is owed and overdue', async () => {
    const { client, id } = await retrying();
    await h.temporal.workflow.getHandle(`enrichment/${client}/${id}`).terminate('by a test');
    h.skip(120_000);
    await h.sweep();
    await delivered(client, id);
    assert.equal(new Set(receiver.idsOf('a')).size, 1);
  });

  it('enrichment reset to its first task: it goes on, with the same notification', async () => {
    const { client, id } = await retrying();
    const workflowId = `enrichment/${client}/${id}`;
    const { runId } = await h.temporal.workflow.getHandle(workflowId).describe();
    // The first task ends a moment after the attempt that it held.
    const task = await until('the first task is completed', async () => {
      const { history } = await h.temporal.workflowService.getWorkflowExecutionHistory({
        namespace: 'default',
        execution: { workflowId, runId },
      });
      return history?.events?.find((e) => e.workflowTaskCompletedEventAttributes);
    });
    assert.ok(task.eventId);
    await h.temporal.workflowService.resetWorkflowExecution({
      namespace: 'default',
      workflowExecution: { workflowId, runId },
      workflowTaskFinishEventId: task.eventId,
      requestId: h.taskQueue,
      reason: 'by a test',
    });
    h.skip(120_000);
    await h.sweep();
    await delivered(client, id);
    assert.equal(new Set(receiver.idsOf('a')).size, 1);
  });

  it('enrichment terminated before its claim: the sweep claims its events, once', async () => {
    const clients = [await h.newClient(receiver.url), await h.newClient(receiver.url)];
    await h.stopWorker();
    const published = await Promise.all(
      clients.flatMap((client) => [
        h.publish({ client, asset: 'a' }),
        h.publish({ client, asset: 'b', priority: 'backfill' }),
      ]),
    );
    assert.deepEqual(new Set(published.map((p) => p.kind)), new Set(['queued']));
    const query = `TaskQueue = '${h.taskQueue}' AND WorkflowType = 'enrichment' AND ExecutionStatus = 'Running'`;
    const running = () => h.temporal.workflow.count(query).then(({ count }) => count);
    await until('they are listed', async () => (await running()) > 0);
    for await (const { workflowId } of h.temporal.workflow.list({ query })) {
      await h.temporal.workflow.getHandle(workflowId).terminate('by a test');
    }
    await until('none is listed as running', async () => (await running()) === 0);
    await h.startWorker();
    await h.sweep();
    for (const [i, { id }] of published.entries()) await delivered(clients[i < 2 ? 0 : 1] as string, id);
    const received = receiver.received.length;
    assert.equal(received, 4);
    await h.sweep();
    assert.equal((await getEndpoint(h.db, clients[0] as string)).owed, 0);
    assert.equal(receiver.received.length, received);
  });

  it('enrichment cancelled before its first task: it claims all the same', async () => {
    const client = await h.newClient(receiver.url);
    await h.stopWorker();
    const { id } = await h.publish({ client, asset: 'a' });
    await h.temporal.workflow.getHandle(`enrichment/${client}/${id}`).cancel();
    await h.startWorker();
    await delivered(client, id);
  });

  for (const how of ['cancel', 'terminate'] as const) {
    it(`catch-up: ${how}, then the sweep starts another`, async () => {
      const client = await h.newClient(receiver.url);
      await pauseEndpoint(h.db, client);
      const { id } = await h.publish({ client, asset: 'a' });
      const handle = h.temporal.workflow.getHandle(catchUpId(client));
      await until('catch-up waits', async () =>
        handle
          .describe()
          .then((d) => d.status.name === 'RUNNING')
          .catch(() => false),
      );
      if (how === 'cancel') await handle.cancel();
      else await handle.terminate('by a test');
      await until('it has ended', async () => (await handle.describe()).status.name !== 'RUNNING');
      await unpauseEndpoint(h.db, client);
      h.skip(120_000);
      await until('the sweep sees it', async () => {
        await h.sweep();
        return (await h.notification(client, id))?.state === 'delivered';
      });
      assert.equal((await getEndpoint(h.db, client)).owed, 0);
    });
  }

  it('a worker that is gone in the middle of an attempt: sent again under the same id after its lease', async () => {
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
