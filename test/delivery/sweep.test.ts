import assert from 'node:assert/strict';
import { recoverFailed } from '../../src/redis/notifications/notifications.js';
import { forgetAnnouncement } from '../../src/redis/owed/owedClients.js';
import { dropFromIndex, isIndexed } from '../../src/redis/owed/owedIndex.js';
import { keysMatching } from '../keysMatching.js';
import { type Harness, type Receiver, startHarness, startReceiver, until } from './harness.js';

describe('the sweep', () => {
  let h: Harness;
  let receiver: Receiver;
  before(async () => {
    [h, receiver] = await Promise.all([startHarness({}, 'worker'), startReceiver()]);
  });
  after(async () => {
    await receiver.close();
    await h.close();
  });

  it('handles every client, even if the keys of another are broken', async () => {
    const [broken, well] = await Promise.all([h.newClient(receiver.url), h.newClient(receiver.url)]);
    const now = Date.now();
    await h.db.redis.set(h.db.client(broken).owedSince, 'no sorted set');
    await h.db.redis.hset(h.db.client(broken).owed, 'a', 'msg_AAAAAAAAAAAAAAAAAAAAAA');
    await h.db.redis.zadd(h.db.global.owedClients, now, broken, now, well);
    // Claimed while no worker runs, and its workflow is lost.
    const { id } = await h.publish({ client: well, asset: 'a' });
    await until('its workflow runs', async () => {
      const handle = h.temporal.workflow.getHandle(h.ids.enrichment(well, id));
      return handle.terminate('by a test').then(
        () => true,
        () => false,
      );
    });
    h.skip(120_000);
    await h.startWorker();
    await h.sweep();
    await until('delivered', async () => (await h.notification(well, id))?.state === 'delivered');
  });

  it('knows a client before recover makes something owed again', async () => {
    const client = await h.newClient(receiver.url);
    assert.equal(await isIndexed(h.db, client), false);
    await recoverFailed(h.db, client, { since: 0, until: Date.now(), dryRun: true });
    assert.equal(await isIndexed(h.db, client), false);
    await recoverFailed(h.db, client, { since: 0, until: Date.now(), dryRun: false });
    assert.equal(await isIndexed(h.db, client), true);
  });

  it('knows a client whose claim and announcement were lost together, once its workflow has claimed again', async () => {
    await h.stopWorker();
    const client = await h.newClient(receiver.url);
    const { id } = await h.publish({ client, asset: 'a' });
    assert.equal(await isIndexed(h.db, client), true);
    const { base } = h.db.client(client);
    const lost = await Promise.all(
      ['owed*', 'due:*', 'known:*', 'notification*', 'endpoint'].map((name) =>
        keysMatching(h.db, `${base}${name}`),
      ),
    );
    await h.db.redis.del(lost.flat());
    await dropFromIndex(h.db, client, Number.MAX_SAFE_INTEGER);
    // With a failover the process loses its connection, and no longer knows what it has announced.
    forgetAnnouncement(h.db, client);
    await h.startWorker();
    await until('delivered', async () => (await h.notification(client, id))?.state === 'delivered');
    assert.equal(await isIndexed(h.db, client), true);
  });
});
