import assert from 'node:assert/strict';
import { getNotification } from '../../src/redis/notifications/notifications.js';
import { startService } from '../program.js';
import { newPublisher } from '../publisher.js';
import { startReceiver, until } from '../receiver.js';

describe('Processes of the service', () => {
  it('finish and settle the POST in flight after SIGTERM, then end with 0', async () => {
    const [service, receiver] = await Promise.all([startService(), startReceiver()]);
    const publisher = await newPublisher(service);
    try {
      const client = await publisher.newClient();
      await publisher.register(client, receiver.url);
      receiver.delayMs = 1500;
      const id = await publisher.publish(client, 'a');
      await until('the POST is in flight', () => receiver.received.length === 1);
      assert.equal(await service.stop(), 0, service.said());
      const found = await getNotification(publisher.db, client, id);
      assert.equal(found?.state, 'delivered');
      assert.equal(found.attempts.length, 1);
      assert.equal(receiver.received.length, 1);
    } finally {
      await service.stop();
      await receiver.close();
      publisher.close();
    }
  });
});
