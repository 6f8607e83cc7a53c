import assert from 'node:assert/strict';
import { getNotification } from '../../src/redis/notifications/notifications.js';
import { planCatchUp } from '../../src/redis/owed/plan.js';
import { keysMatching } from '../keysMatching.js';
import {
  closeDeliveryClients,
  type DeliveryClient,
  day,
  newDeliveryClient,
  whatIsOwed,
} from './deliveryClient.js';

/** Every key of a client as it is now; what it answers puts all of them back and removes what came since. */
async function snapshot(client: DeliveryClient): Promise<() => Promise<void>> {
  const { redis } = client.db;
  const kept = await Promise.all(
    (await keysOf(client)).map(async (key) => ({ key, dump: await redis.dumpBuffer(key) })),
  );
  return async () => {
    const present = await keysOf(client);
    if (present.length > 0) await redis.del(...present);
    for (const { key, dump } of kept) if (dump !== null) await redis.restore(key, 0, dump);
  };
}

async function keysOf(client: DeliveryClient): Promise<string[]> {
  const { base } = client.db.client(client.clientToken);
  return await keysMatching(client.db, `${base.replaceAll('[', '\\[')}*`);
}

async function isOwed(client: DeliveryClient, asset: string): Promise<string | undefined> {
  const { waiting, flight } = await whatIsOwed(client);
  return waiting[asset] ?? flight[asset]?.newer ?? flight[asset]?.id;
}

describe('Redis that lost its last second', () => {
  after(closeDeliveryClients);

  it('makes the workflow claim again, and the asset is owed', async () => {
    const client = await newDeliveryClient();
    const event = client.event({ platformId: 'vid' });
    const lose = await snapshot(client);
    assert.equal((await client.claim(event)).kind, 'claimed');
    await lose();
    const owed = { ...event, claim: 1 };
    assert.deepEqual(await client.take(owed), { kind: 'reclaim' });
    assert.deepEqual(await client.claimAgain(event, 1), { kind: 'claimed', claim: 1, again: false });
    assert.equal(await isOwed(client, 'vid'), event.notificationId);
    assert.equal((await client.attempt(owed, { ok: true })).outcome, 'delivered');
    assert.equal(await isOwed(client, 'vid'), undefined);
  });

  it('reports the loss only to a caller who knows the claim’s number', async () => {
    const client = await newDeliveryClient();
    const event = client.event({ platformId: 'vid' });
    const lose = await snapshot(client);
    await client.claim(event);
    await lose();
    assert.deepEqual(await client.take(event), { kind: 'gone' });
    assert.deepEqual(await client.take({ ...event, claim: 1 }), { kind: 'reclaim' });
  });

  it('does not report the loss if the asset was claimed again since', async () => {
    const client = await newDeliveryClient();
    const event = client.event({ platformId: 'vid' });
    const lose = await snapshot(client);
    await client.claim(event);
    await lose();
    const newer = await client.owe('vid');
    assert.deepEqual(await client.take({ ...event, claim: 1 }), { kind: 'gone' });
    assert.equal(await isOwed(client, 'vid'), newer.notificationId);
  });

  it('makes the claim of an asset with an older notification be repeated, with the same number', async () => {
    for (const isInFlight of [false, true]) {
      const client = await newDeliveryClient();
      const older = await client.owe('vid');
      if (isInFlight) await client.take(older);
      const event = client.event({ platformId: 'vid' });
      const lose = await snapshot(client);
      assert.deepEqual(await client.claim(event), {
        kind: 'claimed',
        claim: 2,
        again: false,
        supersedes: true,
      });
      await lose();
      assert.equal(await isOwed(client, 'vid'), older.notificationId);
      assert.deepEqual(await client.take({ ...event, claim: 2 }), { kind: 'reclaim' });
      assert.deepEqual(await client.claimAgain(event, 2), {
        kind: 'claimed',
        claim: 2,
        again: false,
        supersedes: true,
      });
      assert.equal(await isOwed(client, 'vid'), event.notificationId);
      const record = await getNotification(client.db, client.clientToken, older.notificationId);
      assert.equal(record?.state, 'superseded');
      assert.equal(record?.by, event.notificationId);
    }
  });

  it('claims an event whose number is higher than the stored one, although nothing is new', async () => {
    const client = await newDeliveryClient();
    const segments = ['iab:17'];
    const before = await client.owe('vid', { segments });
    await client.attempt(before, { ok: true });
    const event = client.event({ platformId: 'vid', segments });
    assert.deepEqual(await client.claimAgain(event, 8), { kind: 'claimed', claim: 2, again: false });
    assert.equal(await isOwed(client, 'vid'), event.notificationId);
  });

  it('sends a notification delivered in that second once more, never less', async () => {
    const client = await newDeliveryClient();
    const owed = await client.owe('vid');
    const lose = await snapshot(client);
    await client.attempt(owed, { ok: true });
    await lose();
    const plan = await planCatchUp(client.db, client.clientToken, { limit: 10, retentionMs: 30 * day });
    assert.deepEqual(plan.items, [
      { platformId: 'vid', notificationId: owed.notificationId, priority: 'live' },
    ]);
    assert.equal((await client.attempt(owed, { ok: true }, 'drain')).outcome, 'delivered');
  });

  it('settles nothing for an attempt under way whose claim was lost, and the claim is repeated', async () => {
    const client = await newDeliveryClient();
    const event = client.event({ platformId: 'vid' });
    const lose = await snapshot(client);
    await client.claim(event);
    const take = await client.take({ ...event, claim: 1 });
    assert.ok(take.kind === 'taken');
    await lose();
    assert.equal((await client.settle(event, take, { ok: false })).outcome, 'gone');
    assert.deepEqual(await client.take({ ...event, claim: 1 }), { kind: 'reclaim' });
    assert.equal((await client.claimAgain(event, 1)).kind, 'claimed');
    assert.equal((await client.take({ ...event, claim: 1 })).kind, 'taken');
  });

  it('makes an asset due whose attempt only was lost, and the earlier answer still delivers it', async () => {
    const client = await newDeliveryClient();
    const owed = await client.owe('vid');
    const lose = await snapshot(client);
    const take = await client.take(owed);
    assert.ok(take.kind === 'taken');
    await lose();
    assert.equal((await client.settle(owed, take, { ok: true })).outcome, 'delivered');
    assert.equal(await isOwed(client, 'vid'), undefined);
  });

  it('loses no notification by a silent event between the lost claim and the next', async () => {
    const client = await newDeliveryClient();
    const event = client.event({ platformId: 'vid' });
    await client.claim({ ...client.event({ ...event, eventId: 'import' }), notify: false });
    assert.equal((await client.claimAgain(event, 1)).kind, 'claimed');
  });

  it('ends the lost notification as not needed, with the name of the other, if an equal event was claimed after', async () => {
    const client = await newDeliveryClient();
    const event = client.event({ platformId: 'vid' });
    const other = await client.owe('vid', { segments: event.segments });
    assert.deepEqual(await client.claimAgain(event, 1), { kind: 'not_needed', by: other.notificationId });
  });
});
