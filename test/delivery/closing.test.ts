import assert from 'node:assert/strict';
import { withTimeout } from '../../src/promises.js';
import { setClient } from '../../src/redis/records/clients.js';
import { setPaused } from '../../src/redis/records/endpoint.js';
import { createSecretBox, SecretUnreadable } from '../../src/redis/records/secretBox.js';
import { closeGate, startGate, startReceiver, until } from '../receiver.js';
import { afterTest, forTest, opened } from '../servers.js';
import { type Given, startHarness, startWithWorker } from '../service.js';

const within9s = (what: Promise<unknown>) =>
  withTimeout(
    what.then(() => 'ended'),
    9000,
    () => 'still open',
  );

describe('A stopping process', () => {
  const receiver = forTest(() => startReceiver());

  it('ends with its attempts under way, and leaves to others what waits for a place', async () => {
    const h = opened(await startHarness());
    const gate = closeGate(receiver);
    afterTest(gate.open);
    const client = await h.newClient(receiver.url);
    await setClient(h.db, client, { max_in_flight: 1 });
    await h.publish({ client, asset: 'held' });
    await until('its place is taken', () => receiver.received.length === 1);
    await h.publish({ client, asset: 'waits' });
    const closed = h.delivering.close();
    gate.open();
    assert.equal(await within9s(closed), 'ended');
    const { owed, inFlight } = await h.endpoint(client);
    assert.deepEqual([owed, inFlight, receiver.received.length], [1, 0, 1]);
  });

  it('takes nothing for a drain that begins later', async () => {
    const h = opened(await startHarness({}, 'worker'));
    const client = await h.newClient(receiver.url);
    await h.publish({ client, asset: 'waits' });
    await h.delivering.close();
    await within9s(h.deps.hands.idle(client, 5000));
    assert.deepEqual([(await h.endpoint(client)).owed, receiver.received.length], [1, 0]);
  });

  it('does not wait for an attempt whose signing secret cannot be read', async () => {
    const unreadable = () => {
      throw new SecretUnreadable('of a key that is not given');
    };
    const secretBox = { ...createSecretBox(undefined), open: unreadable };
    const failed: string[] = [];
    const metrics = { ownFailure: (cause: string) => failed.push(cause) };
    const h = opened(await startHarness({}, 'all', { secretBox, metrics }));
    await h.publish({ client: await h.newClient(receiver.url), asset: 'a' });
    await until('an attempt could not begin', () => failed.includes('secrets'));
    await h.delivering.close();
    assert.equal(await within9s(h.sender.close()), 'ended');
  });

  it('ends its worker before that is stopped by force, though an attempt waits for its connection longer than that', async () => {
    const gate = startGate();
    const permit: Given['permit'] = async (real, ...asked) => {
      await gate.closed;
      return await real.permit(...asked);
    };
    const h = opened(await startHarness({ ATTEMPT_TIMEOUT_SECONDS: '1' }, 'all', { permit }));
    afterTest(gate.open);
    await h.startWorker();
    const client = await h.newClient(receiver.url);
    const from = performance.now();
    const { id } = await h.publish({ client, asset: 'a' });
    const workflow = await h.workflowOf(client, id);
    await until('it is awaited', async () => {
      const [pending] = (await workflow.describe()).raw.pendingActivities ?? [];
      return pending?.lastStartedTime;
    });
    await h.stopWorker();
    gate.open();
    // Once its lease is over, on a slow machine, it is left to other processes.
    const isInTime = performance.now() - from < h.db.settings.leaseMs - 1000;
    if (isInTime) await h.delivered(client, id);
    assert.ok(receiver.received.length === 1 || !isInTime);
  });

  it('ends its drains once nothing more is taken', async () => {
    const h = opened(await startWithWorker());
    const client = await h.newClient(receiver.url);
    await setClient(h.db, client, { max_in_flight: 1 });
    await setPaused(h.db, client, true);
    await h.publishAll(client, 'vid', 100);
    receiver.delayMs = 300;
    await setPaused(h.db, client, false);
    await h.wake(client);
    await until('catch-up delivers', () => receiver.received.length > 3);
    const closed = h.deps.hands.close();
    assert.equal(await within9s(h.stopWorker()), 'ended');
    await closed;
    assert.equal((await h.endpoint(client)).owed, 100 - receiver.received.length);
  });
});
