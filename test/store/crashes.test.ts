import assert from 'node:assert/strict';
import { pauseEndpoint } from '../../src/store/endpoint.js';
import { cancelNotification, getNotification } from '../../src/store/notifications.js';
import { owedOverview } from '../../src/store/owed.js';
import { planCatchUp } from '../../src/store/plan.js';
import {
  closeDeliveryClients,
  type DeliveryClient,
  day,
  leaseMs,
  newDeliveryClient,
  second,
} from './deliveryClient.js';

const retentionMs = 30 * day;

/** What a process leaves behind that dies between two of its steps. */
describe('after a crash', () => {
  after(closeDeliveryClients);

  const leases = (client: DeliveryClient) =>
    client.db.redis.zcard(client.db.client(client.clientToken).inFlight);

  it('not_needed says which brought the segments first: written with the decision itself', async () => {
    const client = await newDeliveryClient();
    const [first, second] = ['an-1', 'an-2'].map((eventId) =>
      client.event({ platformId: 'vid', eventId, segments: ['x'] }),
    );
    assert.ok(first && second);
    await client.claim(first);
    const deciding = client.claim(second);
    // Sent before the answer of the claim is here: there is no moment in between to crash in.
    const by = client.db.redis.hget(
      client.db.client(client.clientToken).notification(second.notificationId),
      'by',
    );
    assert.deepEqual(await deciding, { kind: 'not_needed', by: first.notificationId });
    assert.equal(await by, first.notificationId);
    const record = await getNotification(client.db, client.clientToken, second.notificationId);
    assert.equal(record?.by, first.notificationId);
  });

  it('a lease that has run out after the end of its asset keeps nothing newer waiting', async () => {
    const client = await newDeliveryClient();
    const owed = await client.owe('vid');
    await client.take(owed);
    client.pass(leaseMs);
    assert.equal(await cancelNotification(client.db, client.clientToken, owed.notificationId), true);
    assert.equal((await client.take(await client.owe('vid'))).kind, 'taken');
  });

  it('a living lease outlasts the end of its asset, and the sweep clears it once it has run out', async () => {
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

  it('a paused client whose expired asset is in flight is looked at again at the end of the lease', async () => {
    const client = await newDeliveryClient();
    const owed = await client.owe('vid');
    client.pass(retentionMs - second);
    await client.take(owed);
    await pauseEndpoint(client.db, client.clientToken);
    client.pass(2 * second);
    const plan = await planCatchUp(client.db, client.clientToken, { limit: 10, retentionMs });
    assert.deepEqual([plan.owed, plan.reason], [1, 'paused']);
    assert.ok(plan.inMs > leaseMs - 3 * second, `again in ${plan.inMs} ms`);
    client.pass(leaseMs);
    const end = await planCatchUp(client.db, client.clientToken, { limit: 10, retentionMs });
    assert.deepEqual([end.owed, end.expired], [0, 1]);
  });
});
