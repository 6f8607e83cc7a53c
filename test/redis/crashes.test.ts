import assert from 'node:assert/strict';
import { cancelNotification, getNotification } from '../../src/redis/notifications/notifications.js';
import { replayDelivered } from '../../src/redis/notifications/replay.js';
import { announceClaims, owedOverview } from '../../src/redis/owed/owedClients.js';
import { planCatchUp } from '../../src/redis/owed/plan.js';
import { pauseEndpoint } from '../../src/redis/records/endpoint.js';
import {
  closeDeliveryClients,
  type DeliveryClient,
  day,
  leaseMs,
  minute,
  newDeliveryClient,
  newNonce,
  second,
} from './deliveryClient.js';

const retentionMs = 30 * day;

/** The state that a process leaves when it dies between two of its steps. */
describe('after a crash', () => {
  after(closeDeliveryClients);

  const leases = (client: DeliveryClient) =>
    client.db.redis.hlen(client.db.client(client.clientToken).flight);

  it('not_needed names the notification that brought the segments first, written with the decision itself', async () => {
    const client = await newDeliveryClient();
    const [first, second] = ['an-1', 'an-2'].map((eventId) =>
      client.event({ platformId: 'vid', eventId, segments: ['x'] }),
    );
    assert.ok(first && second);
    await client.claim(first);
    // Announced already, so that the claim is sent at once.
    await announceClaims(client.db, [client.clientToken]);
    const deciding = client.claimAgain(second, 1);
    // Sent right after the claim, before its answer: there is no moment in between to crash in.
    await new Promise(setImmediate);
    const by = client.db.redis.hget(
      client.db.client(client.clientToken).notification(second.notificationId),
      'by',
    );
    assert.deepEqual(await deciding, { kind: 'not_needed', by: first.notificationId });
    assert.equal(await by, first.notificationId);
    const record = await getNotification(client.db, client.clientToken, second.notificationId);
    assert.equal(record?.by, first.notificationId);
  });

  it('a lease that runs out after its asset ended keeps no newer notification waiting', async () => {
    const client = await newDeliveryClient();
    const owed = await client.owe('vid');
    await client.take(owed);
    client.pass(leaseMs);
    assert.equal(await cancelNotification(client.db, client.clientToken, owed.notificationId), true);
    assert.equal((await client.take(await client.owe('vid'))).kind, 'taken');
  });

  it('a live lease outlasts the end of its asset, and the sweep clears it once it has run out', async () => {
    const client = await newDeliveryClient();
    const owed = await client.owe('vid');
    await client.take(owed);
    await cancelNotification(client.db, client.clientToken, owed.notificationId);
    const beside = await client.take(await client.owe('vid'));
    assert.ok(beside.kind === 'refused' && beside.reason === 'leased', 'two POSTs of one asset');
    await owedOverview(client.db, client.clientToken, retentionMs);
    assert.equal(await leases(client), 1);
    client.pass(leaseMs);
    await owedOverview(client.db, client.clientToken, retentionMs);
    assert.equal(await leases(client), 0);
  });

  it('a notification replayed during an attempt of it is delivered by that attempt', async () => {
    const client = await newDeliveryClient();
    const owed = await client.owe('vid');
    const slow = await client.take(owed);
    client.pass(leaseMs);
    const nonce = newNonce();
    const wanted = [{ ...owed, mode: 'first' as const }];
    const { takes } = await client.turn({ nonce, wanted });
    const [second] = takes;
    assert.ok(slow.kind === 'taken' && second?.kind === 'taken');
    assert.equal((await client.settle(owed, slow, { ok: true })).outcome, 'delivered');
    const { count } = await replayDelivered(client.db, client.clientToken, {
      since: 0,
      until: client.now(),
      dryRun: false,
    });
    assert.equal(count, 1);
    // The answer of the turn was lost: told again, it finds its own lease.
    assert.deepEqual((await client.turn({ nonce, wanted })).takes[0], second);
    assert.equal((await client.settle(owed, second, { ok: true })).outcome, 'delivered');
    const { owed: still } = await owedOverview(client.db, client.clientToken, retentionMs);
    assert.equal(still, 0);
  });

  it('an asset of an attempt that never ended waits again and is due once its lease has run out', async () => {
    const client = await newDeliveryClient();
    const owed = await client.owe('vid', { priority: 'backfill' });
    const since = client.now();
    client.pass(minute);
    await client.take(owed);
    const looked = async () => {
      const { owed: count, items } = await planCatchUp(client.db, client.clientToken, {
        limit: 10,
        retentionMs,
      });
      return { count, items };
    };
    assert.deepEqual(await looked(), { count: 0, items: [] }, 'it is its attempt’s');
    client.pass(leaseMs);
    const { notificationId } = owed;
    assert.deepEqual(await looked(), {
      count: 1,
      items: [{ platformId: 'vid', notificationId, priority: 'backfill' }],
    });
    const { oldestMs, overdueMs } = await owedOverview(client.db, client.clientToken, retentionMs);
    assert.ok(oldestMs >= client.now() - since - second, 'owed since its claim');
    assert.equal(overdueMs, oldestMs, 'and before what came later');
  });

  it('an asset owed for too long and in flight ends once its lease has run out', async () => {
    const client = await newDeliveryClient();
    const owed = await client.owe('vid');
    client.pass(retentionMs - second);
    await client.take(owed);
    await pauseEndpoint(client.db, client.clientToken);
    client.pass(2 * second);
    const plan = await planCatchUp(client.db, client.clientToken, { limit: 10, retentionMs });
    assert.deepEqual([plan.owed, plan.expired], [0, 0]);
    client.pass(leaseMs);
    const end = await planCatchUp(client.db, client.clientToken, { limit: 10, retentionMs });
    assert.deepEqual([end.owed, end.expired], [0, 1]);
    const record = await getNotification(client.db, client.clientToken, owed.notificationId);
    assert.deepEqual([record?.state, record?.reason], ['failed', 'expired']);
  });

  it('an asset claimed after a cancellation in flight is owed since its own claim', async () => {
    const client = await newDeliveryClient();
    const owed = await client.owe('vid');
    client.pass(retentionMs - second);
    const take = await client.take(owed);
    assert.ok(take.kind === 'taken');
    await cancelNotification(client.db, client.clientToken, owed.notificationId);
    const newer = await client.owe('vid');
    const settled = await client.settle(owed, take, { ok: true });
    assert.deepEqual([settled.outcome, settled.next], ['gone', newer.notificationId]);
    client.pass(minute);
    const plan = await planCatchUp(client.db, client.clientToken, { limit: 10, retentionMs });
    assert.deepEqual([plan.owed, plan.expired], [1, 0]);
  });
});
