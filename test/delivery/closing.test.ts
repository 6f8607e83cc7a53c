import assert from 'node:assert/strict';
import type { Sender } from '../../src/outgoing/post.js';
import { turnAttempts } from '../../src/redis/owed/turn.js';
import { setClient } from '../../src/redis/records/clients.js';
import { createSecretBox, SecretUnreadable } from '../../src/redis/records/secretBox.js';
import { withTimeout } from '../../src/withTimeout.js';
import { startHarness, until } from './harness.js';

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
