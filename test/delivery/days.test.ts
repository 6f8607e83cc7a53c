import assert from 'node:assert/strict';
import { getEndpoint } from '../../src/redis/records/endpoint.js';
import { type Receiver, startReceiver, until } from '../receiver.js';
import { type Harness, startHarness } from '../service.js';

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;

/** Default schedules on real servers; Redis' clock, by which everything is timed, is moved ahead. */
describe('Schedules of days', () => {
  let h: Harness;
  let receiver: Receiver;

  beforeEach(async () => {
    h = await startHarness();
    await h.startWorker();
    receiver = await startReceiver();
  });
  afterEach(async () => {
    await h.close();
    await receiver.close();
  });

  const wake = (client: string) => h.wake(client);

  it('an endpoint that fails for 5 days is suspended, and its owed notifications fail after 30', async () => {
    const client = await h.newClient(receiver.url);
    receiver.answer = () => 500;
    const ids: string[] = [];
    for (let i = 0; i < 8; i++) ids.push((await h.publish({ client, asset: `vid-${i}` })).id);
    await until('failing', async () => (await getEndpoint(h.db, client)).state === 'failing');
    let skippedMs = 0;
    while ((await getEndpoint(h.db, client)).state === 'failing') {
      const before = receiver.received.length;
      h.skip(4 * hourMs);
      skippedMs += 4 * hourMs;
      await wake(client);
      await until('one probe', () => receiver.received.length > before);
      await until('it is settled', async () => (await getEndpoint(h.db, client)).inFlight === 0);
      assert.equal(receiver.received.length, before + 1, 'one probe at a time');
      assert.ok(skippedMs <= 6 * dayMs, 'still failing after 6 days');
    }
    assert.equal((await getEndpoint(h.db, client)).state, 'suspended');
    assert.ok(skippedMs >= 5 * dayMs, `suspended after ${skippedMs / hourMs} hours`);
    assert.ok(receiver.received.length >= 20);

    const tried = receiver.received.length;
    h.skip(10 * dayMs);
    await wake(client);
    assert.equal((await getEndpoint(h.db, client)).owed, 8);
    h.skip(16 * dayMs);
    await wake(client);
    for (const id of ids) {
      const failed = await until(`${id} has failed`, async () => {
        const found = await h.notification(client, id);
        return found?.state === 'failed' && found;
      });
      assert.equal(failed.reason, 'expired');
    }
    assert.equal(receiver.received.length, tried, 'nothing is tried while suspended');
  });

  it('a notification that alone is refused delays no other and fails after 5 days', async () => {
    const client = await h.newClient(receiver.url);
    receiver.answer = (r) => (r.body.includes('"refused"') ? 400 : 200);
    const { id } = await h.publish({ client, asset: 'refused' });
    let skippedMs = 0;
    for (let i = 0; ; i++) {
      const other = await h.publish({ client, asset: `other-${i}` });
      await until(
        'another is delivered',
        async () => (await h.notification(client, other.id))?.state === 'delivered',
      );
      const refused = await h.notification(client, id);
      if (refused?.state === 'failed') break;
      assert.ok(skippedMs <= 6 * dayMs, 'still waiting after 6 days');
      const attempts = refused?.attempts.length ?? 0;
      h.skip(8 * hourMs);
      skippedMs += 8 * hourMs;
      await wake(client);
      await until(
        'it was tried again',
        async () => ((await h.notification(client, id))?.attempts.length ?? 0) > attempts,
      );
    }
    const failed = await h.notification(client, id);
    assert.equal(failed?.reason, 'window');
    assert.ok(skippedMs >= 4.5 * dayMs, `failed after ${skippedMs / hourMs} hours`);
    assert.equal((await getEndpoint(h.db, client)).state, 'active');
  });
});
