import assert from 'node:assert/strict';
import type { WorkflowHandle } from '@temporalio/client';
import { searchAttributeBytes } from '../../local/temporal.js';
import { cancelNotification } from '../../src/redis/notifications/redeliver.js';
import { httpStatusKey, notificationStateKey, platformIdKey } from '../../src/temporal/workflowIds.js';
import { closeGate, until } from '../receiver.js';
import { opened } from '../servers.js';
import { startWithWorker, useHarness } from '../service.js';

describe('The Temporal UI', () => {
  const retries = { RETRY_SCHEDULE_SECONDS: '4', WORKFLOWS_PER_SECOND: '0.5', failingAfter: 1000 };
  const scene = useHarness({ ...retries, SEARCH_ATTRIBUTE_BYTES: String(searchAttributeBytes) });
  let { h, receiver, client } = scene;
  beforeEach(() => {
    ({ h, receiver, client } = scene);
  });

  const pendingOf = async (handle: WorkflowHandle) => {
    const [pending] = (await handle.describe()).raw.pendingActivities ?? [];
    return pending;
  };
  const ended = async (handle: WorkflowHandle) => {
    const { memo, typedSearchAttributes } = await handle.describe();
    return {
      memo,
      status: typedSearchAttributes.get(httpStatusKey),
      state: typedSearchAttributes.get(notificationStateKey),
    };
  };

  it('shows for a group of 300 with 3 failures the counts, the three assets and the worst status', async () => {
    const failing = ['vid-7', 'vid-150', 'vid-299'];
    receiver.answer = ({ body }) =>
      failing.includes((JSON.parse(body) as { platform_id: string }).platform_id) ? 502 : 200;
    await h.publish({ client, asset: 'has a workflow of its own' });
    const published = await Promise.all(
      Array.from({ length: 300 }, async (_, i) => {
        const asset = `vid-${i}`;
        return { asset, ...(await h.publish({ client, asset })) };
      }),
    );
    const handle = await h.workflowOf(client, published[0]?.id ?? '');
    const { not_delivered, slowest_milliseconds, ...counts } = await handle.result();
    assert.deepEqual(counts, { events: 300, delivered: 297, waiting: 3, worst_status: 502 });
    assert.ok(slowest_milliseconds >= 0);
    // A worker that stood still hands an event over before its last retry.
    const named = new Map(
      not_delivered.map(({ platform_id, reason, failed_attempts, ...one }: Record<string, unknown>) => [
        platform_id,
        one,
      ]),
    );
    for (const asset of failing)
      assert.deepEqual(named.get(asset), {
        client_token: client,
        notification_id: published.find((one) => one.asset === asset)?.id,
        state: 'waiting',
        status: 502,
        error: 'http_status',
        handed_to: h.ids.catchUp(client),
      });
    const { status, state } = await ended(handle);
    assert.deepEqual([status, state], [502, 'waiting']);
    assert.equal((await h.catchUp(client).describe()).status.name, 'RUNNING', 'it has the rest');
    // The lists together are longer than a server accepts by default.
    const { typedSearchAttributes } = await handle.describe();
    const assets = published.map(({ asset }) => asset);
    assert.deepEqual(typedSearchAttributes.get(platformIdKey)?.toSorted(), assets.toSorted());
    const query = `ClientToken = '${client}' AND PlatformId = 'vid-299'`;
    assert.equal((await h.temporal.workflow.count(query)).count, 1);
  });

  it('shows the first status of a slow receiver while its event waits for a retry, and the page in the console', async () => {
    const settings = { RETRY_SCHEDULE_SECONDS: '60', PUBLIC_URL: 'https://hooks.example' };
    const patient = opened(await startWithWorker(settings));
    receiver.delayMs = 1500;
    receiver.answer = () => 503;
    const client = await patient.newClient(receiver.url);
    const { id } = await patient.publish({ client, asset: 'a' });
    const handle = await patient.workflowOf(client, id);
    await until('503', async () => (await ended(handle)).status === 503);
    const described = await handle.describe();
    assert.equal(described.status.name, 'RUNNING');
    const page = `https://hooks.example/console/sites/${client}/notifications/${id}`;
    assert.equal(await described.staticDetails(), `<${page}>`);
    const words = /^attempt 1 of .* failed: http_status 503 /;
    await until('the failure', async () => words.test((await pendingOf(handle))?.lastFailure?.message ?? ''));
    assert.equal(receiver.received.length, 1);
    await handle.terminate();
  });

  it('shows the last failure and the time of the next attempt while an event waits after a 503, then its result', async () => {
    receiver.answer = () => (receiver.received.length <= 2 ? 503 : 200);
    const { id } = await h.publish({ client, asset: 'a' });
    const handle = await h.workflowOf(client, id);
    const { host } = new URL(receiver.url);
    for (const failures of [1, 2]) {
      const words = `attempt ${failures} of ${host} failed: http_status 503 (a to ${client})`;
      const pending = await until(words, async () => {
        const found = await pendingOf(handle);
        return found?.lastFailure?.message === words && found;
      });
      assert.equal(pending.lastFailure?.applicationFailureInfo?.type, 'http_status');
      const { nextAttemptAt = 0 } = (await h.notification(client, id)) ?? {};
      const shownAt =
        Number(pending.scheduledTime?.seconds) * 1000 + (pending.scheduledTime?.nanos ?? 0) / 1e6;
      // Temporal counts the 4 s from when it is told of the failure.
      assert.ok(shownAt > nextAttemptAt - 1000, `${shownAt} is shown, ${nextAttemptAt} is due`);
      assert.ok(shownAt < Date.now() + 5000, `${shownAt} is shown`);
    }
    const { milliseconds, ...result } = await handle.result();
    assert.deepEqual(result, { state: 'delivered', status: 200 });
    assert.ok(milliseconds < 4000, 'of the attempt that was answered 2xx');
    assert.deepEqual(await ended(handle), { ...result, memo: {} }, 'nothing waits any more');
    assert.deepEqual(receiver.idsOf('a'), [id, id, id]);
  });

  it('shows cancelled for a notification that an operator cancels during its attempt', async () => {
    const gate = closeGate(receiver);
    const { id } = await h.publish({ client, asset: 'a' });
    await until('under way', () => receiver.received.length === 1);
    assert.equal(await cancelNotification(h.db, client, id), true);
    gate.open();
    const handle = await h.workflowOf(client, id);
    assert.deepEqual(await handle.result(), { state: 'cancelled' });
    assert.equal((await h.notification(client, id))?.state, 'cancelled');
  });
});
