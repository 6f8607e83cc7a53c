import assert from 'node:assert/strict';
import { lostClaims } from '../../src/store/lostClaims.js';
import { getNotification } from '../../src/store/notifications.js';
import { planCatchUp } from '../../src/store/plan.js';
import { closeDeliveryClients, type DeliveryClient, day, newDeliveryClient } from './deliveryClient.js';

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
  return await client.db.redis.keys(`${base.replaceAll('[', '\\[')}*`);
}

async function isOwed(client: DeliveryClient, asset: string): Promise<string | null> {
  return await client.db.redis.hget(client.db.client(client.clientToken).owed, asset);
}

describe('Redis that lost its last second', () => {
  after(closeDeliveryClients);

  it('has the claim made again by the workflow that made it, and the asset is owed', async () => {
    const client = await newDeliveryClient();
    const event = client.event({ platformId: 'vid' });
    const lose = await snapshot(client);
    const claim = await client.claim(event);
    assert.equal(claim.kind, 'claimed');
    await lose();
    const owed = { ...event, claim: 1 };
    assert.deepEqual(await client.take(owed), { kind: 'reclaim' });
    assert.deepEqual(await client.claim(event), { kind: 'claimed', claim: 1 });
    assert.equal(await isOwed(client, 'vid'), event.notificationId);
    assert.equal((await client.attempt(owed, { ok: true })).outcome, 'delivered');
    assert.equal(await isOwed(client, 'vid'), null);
  });

  it('has the claim of an asset with an older notification made again, with the same number', async () => {
    const client = await newDeliveryClient();
    const older = await client.owe('vid');
    const event = client.event({ platformId: 'vid' });
    const lose = await snapshot(client);
    assert.deepEqual(await client.claim(event, 1), { kind: 'claimed', claim: 2 });
    await lose();
    assert.equal(await isOwed(client, 'vid'), older.notificationId);
    assert.deepEqual(await client.take({ ...event, claim: 2 }), { kind: 'reclaim' });
    assert.deepEqual(await client.claim(event, 1), { kind: 'claimed', claim: 2 });
    const record = await getNotification(client.db, client.clientToken, older.notificationId);
    assert.equal(record?.state, 'superseded');
    assert.equal(record?.by, event.notificationId);
  });

  it('has an event claimed whose looked-up number is higher than the one there, although nothing is new', async () => {
    const client = await newDeliveryClient();
    const segments = ['iab:17'];
    const before = await client.owe('vid', { segments });
    await client.attempt(before, { ok: true });
    const event = client.event({ platformId: 'vid', segments });
    assert.deepEqual(await client.claim(event, 7), { kind: 'claimed', claim: 2 });
    assert.equal(await isOwed(client, 'vid'), event.notificationId);
  });

  it('names the claims that are gone to a workflow that is about to leave them', async () => {
    const client = await newDeliveryClient();
    await client.owe('kept');
    const lose = await snapshot(client);
    await client.owe('lost');
    const claims = ['kept', 'lost'].map((platformId) => ({ platformId, claim: 1 }));
    assert.deepEqual(await lostClaims(client.db, client.clientToken, claims), []);
    await lose();
    assert.deepEqual(await lostClaims(client.db, client.clientToken, claims), [1]);
  });

  it('sends once more what was delivered in that second, never less', async () => {
    const client = await newDeliveryClient();
    const owed = await client.owe('vid');
    const lose = await snapshot(client);
    await client.attempt(owed, { ok: true });
    await lose();
    const plan = await planCatchUp(client.db, client.clientToken, { limit: 10, retentionMs: 30 * day });
    assert.deepEqual(plan.items, [{ platformId: 'vid', notificationId: owed.notificationId }]);
    assert.equal((await client.attempt(owed, { ok: true }, 'drain')).outcome, 'delivered');
  });

  it('lost with the claim of an attempt under way: its answer settles nothing, and the claim is made again', async () => {
    const client = await newDeliveryClient();
    const event = client.event({ platformId: 'vid' });
    const lose = await snapshot(client);
    await client.claim(event);
    const take = await client.take({ ...event, claim: 1 });
    assert.ok(take.kind === 'taken');
    await lose();
    assert.equal((await client.settle(event, take, { ok: false })).outcome, 'gone');
    assert.equal((await client.claim(event)).kind, 'claimed');
    assert.equal((await client.take({ ...event, claim: 1 })).kind, 'taken');
  });

  it('lost with an attempt only: the entry is due, and the answer from before still delivers it', async () => {
    const client = await newDeliveryClient();
    const owed = await client.owe('vid');
    const lose = await snapshot(client);
    const take = await client.take(owed);
    assert.ok(take.kind === 'taken');
    await lose();
    assert.equal((await client.settle(owed, take, { ok: true })).outcome, 'delivered');
    assert.equal(await isOwed(client, 'vid'), null);
  });

  it('a silent mark between look and claim takes no notification away', async () => {
    const client = await newDeliveryClient();
    const event = client.event({ platformId: 'vid' });
    const look = await client.look(event);
    assert.ok(look.kind === 'new');
    await client.look({ ...client.event({ ...event, eventId: 'import' }), notify: false });
    assert.equal((await client.claim(event, look.claim)).kind, 'claimed');
  });

  it('an equal event claimed between look and claim makes it not needed, and says by which', async () => {
    const client = await newDeliveryClient();
    const event = client.event({ platformId: 'vid' });
    const look = await client.look(event);
    assert.ok(look.kind === 'new');
    const other = await client.owe('vid', { segments: event.segments });
    assert.deepEqual(await client.claim(event, look.claim), { kind: 'not_needed', by: other.notificationId });
  });
});
