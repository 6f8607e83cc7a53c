import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Sender } from '../../src/outgoing/post.js';
import { turnAttempts } from '../../src/redis/owed/turn.js';
import { setClient } from '../../src/redis/records/clients.js';
import { getEndpoint, pauseEndpoint, unpauseEndpoint } from '../../src/redis/records/endpoint.js';
import { createSecretBox, SecretUnreadable } from '../../src/redis/records/secretBox.js';
import { withTimeout } from '../../src/withTimeout.js';
import { type Harness, startGate, startHarness, startReceiver, until } from './harness.js';
import { senderWithPlaces } from './senders.js';

describe('A stopping engine', () => {
  it('hands notifications that are refused a place over to catch-up', async () => {
    const h = await startHarness({}, 'worker');
    try {
      const { db, deps, delivering } = h;
      const clientToken = await h.newClient('http://127.0.0.1:9/');
      await setClient(db, clientToken, { maxInFlight: 1 });
      const [held, refused] = await Promise.all(
        ['held', 'refused'].map(async (platformId) => {
          const { id: notificationId } = await h.publish({ client: clientToken, asset: platformId });
          return { clientToken, platformId, notificationId, priority: 'live' as const };
        }),
      );
      assert.ok(held !== undefined && refused !== undefined);
      const wanted = [{ ...held, mode: 'first' as const }];
      const { takes } = await turnAttempts(
        db,
        clientToken,
        { wanted, nonce: 'another-process' },
        deps.settings,
      );
      assert.equal(takes[0]?.kind, 'taken');

      const outcome = deps.engine.join(refused, 'first');
      await new Promise(setImmediate);
      const closed = withTimeout(
        delivering.close().then(() => 'closed'),
        5000,
        () => 'still open',
      );
      assert.equal(await closed, 'closed');
      assert.equal((await outcome).state, 'waiting');
    } finally {
      void h.close();
    }
  });

  it('hands the queue over of a client whose turn failed before, with nothing left then', async () => {
    const h = await startHarness({}, 'worker');
    const receiver = await startReceiver();
    try {
      const { db, deps } = h;
      const clientToken = await h.newClient(receiver.url);
      const [fails, held, queued] = await Promise.all(
        ['fails', 'held', 'queued'].map(async (platformId) => {
          const { id: notificationId } = await h.publish({ client: clientToken, asset: platformId });
          return { clientToken, platformId, notificationId, priority: 'live' as const };
        }),
      );
      assert.ok(fails !== undefined && held !== undefined && queued !== undefined);
      await db.redis.hset(db.client(clientToken).client, 'max_in_flight', 'unreadable');
      await deps.engine.join(fails, 'first');
      // The turn has failed, and now waits 20 ms, though nothing is left to be done.
      await setClient(db, clientToken, { maxInFlight: 1 });
      receiver.delayMs = 500;
      const both = [deps.engine.join(held, 'first'), deps.engine.join(queued, 'first')];
      await until('the place is taken', () => receiver.received.length === 1);
      await sleep(100);
      await h.delivering.close();
      const states = (await Promise.all(both)).map(({ state }) => state);
      assert.deepEqual(states, ['delivered', 'waiting']);
      assert.equal(receiver.received.length, 1);
    } finally {
      await h.close();
      await receiver.close();
    }
  });

  it('does not wait for an attempt whose signing secret cannot be read', async () => {
    const unreadable = () => {
      throw new SecretUnreadable('of a key that is not given');
    };
    let sender: Sender | undefined;
    const h = await startHarness({}, 'all', {
      secretBox: { ...createSecretBox(undefined), open: unreadable },
      sender: (real) => {
        sender = real;
        return real;
      },
    });
    const clientToken = await h.newClient('http://127.0.0.1:9/');
    const failed: string[] = [];
    h.deps.metrics.ownFailure = (cause) => failed.push(cause);
    await h.publish({ client: clientToken, asset: 'a' });
    await until('an attempt could not begin', () => failed.includes('secrets'));
    await h.delivering.close();
    const closed = withTimeout(
      sender?.close().then(() => 'closed') ?? assert.fail(),
      5000,
      () => 'still open',
    );
    assert.equal(await closed, 'closed');
    await h.close();
  });
});

describe('A stopping worker', () => {
  const stopped = (h: Harness, ms: number) =>
    withTimeout(
      h.stopWorker().then(() => 'stopped'),
      ms,
      () => 'still running',
    );

  it('ends before it is stopped by force, though an attempt waits for its connection longer than that', async () => {
    const receiver = await startReceiver();
    const gate = startGate();
    const h = await startHarness({ ATTEMPT_TIMEOUT_SECONDS: '1' }, 'all', {
      sender: senderWithPlaces(async (real, ...asked) => {
        await gate.closed;
        return await real.place(...asked);
      }),
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
      await until('delivered', async () => (await h.notification(client, id))?.state === 'delivered');
      assert.equal(receiver.received.length, 1);
    } finally {
      gate.open();
      await h.close();
      await receiver.close();
    }
  });

  it('ends its drains once nothing more is taken', async () => {
    const receiver = await startReceiver();
    const h = await startHarness();
    try {
      await h.startWorker();
      const client = await h.newClient(receiver.url);
      await setClient(h.db, client, { maxInFlight: 1 });
      await pauseEndpoint(h.db, client);
      for (let i = 0; i < 100; i++) await h.publish({ client, asset: `vid-${i}` });
      receiver.delayMs = 300;
      await unpauseEndpoint(h.db, client);
      await h.wake(client);
      await until('catch-up delivers', () => receiver.received.length > 3);
      const closed = h.deps.engine.close();
      assert.equal(await stopped(h, 10_000), 'stopped');
      await closed;
      assert.equal((await getEndpoint(h.db, client)).owed, 100 - receiver.received.length);
    } finally {
      await h.close();
      await receiver.close();
    }
  });
});
