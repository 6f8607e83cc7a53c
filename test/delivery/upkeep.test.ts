import assert from 'node:assert/strict';
import { redeliver } from '../../src/redis/notifications/notifications.js';
import { setPaused } from '../../src/redis/records/endpoint.js';
import { type Harness, type Receiver, startHarness, startReceiver, until } from './harness.js';

describe('While receivers that never answer hold every slot for retries', () => {
  let h: Harness;
  let hanging: Receiver;
  let receiver: Receiver;

  const hung: { client: string; id: string }[] = [];
  before(async () => {
    h = await startHarness({ RETRY_SCHEDULE_SECONDS: '0.1', ATTEMPT_TIMEOUT_SECONDS: '60' });
    await h.startWorker({ retries: 2, upkeep: 2 });
    [hanging, receiver] = await Promise.all([startReceiver(), startReceiver()]);
    hanging.answer = () => (hanging.received.length <= 2 ? 500 : 'hang');
    for (let i = 0; i < 2; i++) {
      const client = await h.newClient(hanging.url);
      hung.push({ client, ...(await h.publish({ client, asset: 'a' })) });
    }
    await until('both were tried again', () => hanging.received.length === 4);
  });
  afterEach('the two retries still hang', async () => {
    for (const { client, id } of hung) assert.equal((await h.notification(client, id))?.attempts.length, 1);
  });
  after(async () => {
    await Promise.all([hanging.close(), receiver.close()]);
    await h.close();
  });

  const state = async (client: string, id: string) => (await h.notification(client, id))?.state;

  it('the sweep finds owed assets that nothing works on, and they are delivered', async () => {
    const client = await h.newClient(receiver.url);
    await setPaused(h.db, client, true);
    const { id } = await h.publish({ client, asset: 'nobody works on it' });
    const catchUp = h.temporal.workflow.getHandle(h.ids.catchUp(client));
    await until('it is left to catch-up', () =>
      catchUp.terminate('by a test').then(
        () => true,
        () => false,
      ),
    );
    await setPaused(h.db, client, false);
    h.skip(60_000);
    await h.sweep();
    await until('delivered', async () => (await state(client, id)) === 'delivered');
  });

  it('catch-up still delivers, and a redelivery is sent', async () => {
    const client = await h.newClient(receiver.url);
    const { id } = await h.publish({ client, asset: 'left to catch-up', priority: 'backfill' });
    await until('delivered', async () => (await state(client, id)) === 'delivered');
    await redeliver(h.db, client, id);
    await h.wake(client);
    await until('sent again', () => receiver.idsOf('left to catch-up').length === 2);
  });
});
