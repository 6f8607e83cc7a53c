import assert from 'node:assert/strict';
import { withTimeout } from '../../src/promises.js';
import { setClient } from '../../src/redis/records/clients.js';
import { getEndpoint, setPaused } from '../../src/redis/records/endpoint.js';
import { createSecretBox, SecretUnreadable } from '../../src/redis/records/secretBox.js';
import { closeGate, startGate, startReceiver, until } from '../receiver.js';
import { type Harness, startHarness } from '../service.js';

const within5s = (what: Promise<unknown>) =>
  withTimeout(
    what.then(() => 'ended'),
    5000,
    () => 'still open',
  );

describe('A stopping process', () => {
  it('ends with its attempts under way, and leaves to others what waits for a place', async () => {
    const h = await startHarness();
    const receiver = await startReceiver();
    const gate = closeGate(receiver);
    try {
      const client = await h.newClient(receiver.url);
      await setClient(h.db, client, { maxInFlight: 1 });
      await h.publish({ client, asset: 'held' });
      await until('its place is taken', () => receiver.received.length === 1);
      await h.publish({ client, asset: 'waits' });
      const closed = h.delivering.close();
      gate.open();
      assert.equal(await within5s(closed), 'ended');
      const { owed, inFlight } = await getEndpoint(h.db, client);
      assert.deepEqual([owed, inFlight, receiver.received.length], [1, 0, 1]);
    } finally {
      gate.open();
      await h.close();
      await receiver.close();
    }
  });

  it('does not wait for an attempt whose signing secret cannot be read', async () => {
    const unreadable = () => {
      throw new SecretUnreadable('of a key that is not given');
    };
    const secretBox = { ...createSecretBox(undefined), open: unreadable };
    const h = await startHarness({}, 'all', { secretBox });
    const clientToken = await h.newClient('http://127.0.0.1:9/');
    const failed: string[] = [];
    h.deps.metrics.ownFailure = (cause) => failed.push(cause);
    await h.publish({ client: clientToken, asset: 'a' });
    await until('an attempt could not begin', () => failed.includes('secrets'));
    await h.delivering.close();
    assert.equal(await within5s(h.sender.close()), 'ended');
    await h.close();
  });
});

describe('A stopping worker', () => {
  it('ends before it is stopped by force, though an attempt waits for its connection longer than that', async () => {
    const receiver = await startReceiver();
    const gate = startGate();
    const h = await startHarness({ ATTEMPT_TIMEOUT_SECONDS: '1' }, 'all', {
      place: async (real, ...asked) => {
        await gate.closed;
        return await real.place(...asked);
      },
    });
    try {
      await h.startWorker();
      const client = await h.newClient(receiver.url);
      const { id } = await h.publish({ client, asset: 'a' });
      const workflow = await h.workflowOf(client, id);
      await until('it is awaited', async () => {
        const [pending] = (await workflow.describe()).raw.pendingActivities ?? [];
        return pending?.lastStartedTime;
      });
      await h.stopWorker();
      gate.open();
      await h.delivered(client, id);
      assert.equal(receiver.received.length, 1);
    } finally {
      gate.open();
      await h.close();
      await receiver.close();
    }
  });

  it('ends its drains once nothing more is taken', async () => {
    const receiver = await startReceiver();
    const h: Harness = await startHarness();
    try {
      await h.startWorker();
      const client = await h.newClient(receiver.url);
      await setClient(h.db, client, { maxInFlight: 1 });
      await setPaused(h.db, client, true);
      for (let i = 0; i < 100; i++) await h.publish({ client, asset: `vid-${i}` });
      receiver.delayMs = 300;
      await setPaused(h.db, client, false);
      await h.wake(client);
      await until('catch-up delivers', () => receiver.received.length > 3);
      const closed = h.deps.couriers.close();
      assert.equal(await within5s(h.stopWorker()), 'ended');
      await closed;
      assert.equal((await getEndpoint(h.db, client)).owed, 100 - receiver.received.length);
    } finally {
      await h.close();
      await receiver.close();
    }
  });
});
