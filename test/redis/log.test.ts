import assert from 'node:assert/strict';
import { listNotifications } from '../../src/redis/notifications/notificationPages.js';
import { getNotification } from '../../src/redis/notifications/notifications.js';
import { closeDeliveryClients, type DeliveryClient, newDeliveryClient } from './deliveryClient.js';

const listedAtMost = 10_000;
const keptSeconds = 14 * 86_400;

describe('the log of a client: 10,000 notifications, 14 days after the end, owed ones always', () => {
  after(closeDeliveryClients);

  const keysOf = (client: DeliveryClient) => client.db.client(client.clientToken);
  const delivered = async (client: DeliveryClient, asset: string) => {
    const owed = await client.owe(asset);
    await client.attempt(owed, { ok: true });
    return owed.notificationId;
  };

  /** So many are listed already, all newer than the oldest ones of the test. */
  async function fill(client: DeliveryClient, count: number): Promise<void> {
    const members: (string | number)[] = [];
    for (let i = 0; i < count; i++) members.push(client.now(), `msg_${i}`);
    await client.db.redis.zadd(keysOf(client).notifications, ...members);
  }

  it('drops the oldest with its record beyond the count, except owed ones, which are listed as waiting', async () => {
    const client = await newDeliveryClient();
    const ended = await delivered(client, 'ended');
    const { notificationId: waiting } = await client.owe('waiting');
    await fill(client, listedAtMost - 2);
    await client.owe('one-more');
    await client.owe('and-another');
    assert.equal(await client.db.redis.zcard(keysOf(client).notifications), listedAtMost);
    assert.equal(await getNotification(client.db, client.clientToken, ended), undefined);
    assert.equal((await getNotification(client.db, client.clientToken, waiting))?.state, 'waiting');
    const listed = await listNotifications(client.db, client.clientToken, { state: 'waiting', limit: 10 });
    assert.deepEqual(
      listed.notifications.map((n) => n.platformId).sort(),
      ['and-another', 'one-more', 'waiting'].sort(),
    );
  });

  it('expires a record 14 days after its end, and never a waiting one', async () => {
    const client = await newDeliveryClient();
    const ended = await delivered(client, 'ended');
    const { notificationId: waiting } = await client.owe('waiting');
    const ttl = (id: string) => client.db.redis.ttl(keysOf(client).notification(id));
    const left = await ttl(ended);
    assert.ok(left > keptSeconds - 60 && left <= keptSeconds, `${left} s`);
    assert.equal(await ttl(waiting), -1);
  });
});
