import assert from 'node:assert/strict';
import { redeliver } from '../../src/redis/notifications/notifications.js';
import { getEndpoint, setPaused } from '../../src/redis/records/endpoint.js';
import { uniquePrefix } from '../servers.js';
import { type Harness, type Receiver, startHarness, startReceiver, until } from './harness.js';

/** As of staging and production that share the servers: a key prefix and a task queue of its own each. */
describe('Two installations on one namespace and Redis, both with a client of the same token', () => {
  const client = `DEMO-${uniquePrefix()}`;
  const both: { h: Harness; receiver: Receiver }[] = [];

  before(async () => {
    for (let i = 0; i < 2; i++) {
      const h = await startHarness();
      await h.startWorker();
      const receiver = await startReceiver();
      await h.newClient(receiver.url, client);
      both.push({ h, receiver });
    }
  });
  after(async () => {
    for (const { h, receiver } of both) {
      await h.close();
      await receiver.close();
    }
  });

  const eventOf = (asset: string) => ({ client, asset, eventId: `of-${asset}`, segments: ['x'] });
  const assets = (name: string) => Array.from({ length: 10 }, (_, i) => `${name}-${i}`);
  const delivered = (h: Harness, id: string) =>
    until('delivered', async () => (await h.notification(client, id))?.state === 'delivered');

  it('each deliver and record their own events, also equal ones', async () => {
    for (const asset of assets('same')) {
      const published = await Promise.all(both.map(({ h }) => h.publish(eventOf(asset))));
      const [first, second] = published.map(({ id }) => id);
      assert.equal(first, second, 'the ids are derived from the event');
      for (const [i, { h }] of both.entries()) {
        assert.equal(published[i]?.kind, 'queued');
        await delivered(h, first as string);
        const handle = await h.workflowOf(client, first as string);
        assert.equal((await handle.describe()).taskQueue, h.taskQueue);
      }
    }
    for (const { receiver } of both) {
      for (const asset of assets('same')) assert.equal(receiver.idsOf(asset).length, 1, asset);
    }
  });

  it('each have their own catch-up', async () => {
    for (const { h } of both) await setPaused(h.db, client, true);
    for (const asset of assets('owed')) for (const { h } of both) await h.publish(eventOf(asset));
    const [one, other] = both as [(typeof both)[0], (typeof both)[0]];
    for (const { h } of both) {
      const catchUp = h.temporal.workflow.getHandle(h.ids.catchUp(client));
      await until('its catch-up runs', () => catchUp.describe().catch(() => undefined));
    }
    await setPaused(one.h.db, client, false);
    await one.h.wake(client);
    await until('one is caught up', async () => (await getEndpoint(one.h.db, client)).owed === 0);
    assert.equal((await getEndpoint(other.h.db, client)).owed, 10);
    for (const asset of assets('owed')) {
      assert.deepEqual([one.receiver.idsOf(asset).length, other.receiver.idsOf(asset).length], [1, 0]);
    }
    await setPaused(other.h.db, client, false);
    await other.h.wake(client);
    await until('the other is caught up', async () => (await getEndpoint(other.h.db, client)).owed === 0);
    for (const asset of assets('owed')) assert.equal(other.receiver.idsOf(asset).length, 1);
  });

  it('are not affected by a redelivery and a sweep of the other', async () => {
    const [one, other] = both as [(typeof both)[0], (typeof both)[0]];
    const [first] = await Promise.all(both.map(({ h }) => h.publish(eventOf('again'))));
    const notificationId = first?.id ?? '';
    for (const { h } of both) await delivered(h, notificationId);
    await redeliver(one.h.db, client, notificationId);
    await one.h.wake(client);
    await until('sent again', () => one.receiver.idsOf('again').length === 2);
    await Promise.all(both.map(({ h }) => h.sweep()));
    assert.equal(other.receiver.idsOf('again').length, 1);
  });
});
