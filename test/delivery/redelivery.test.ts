import assert from 'node:assert/strict';
import { getEndpoint } from '../../src/redis/records/endpoint.js';
import { type Harness, type Receiver, startGate, startHarness, startReceiver, until } from './harness.js';
import { cutOff, senderWithPlaces } from './senders.js';

describe('A redelivery', () => {
  let h: Harness;
  let receiver: Receiver;
  let hasPlace = Promise.resolve();
  let isCutOff = false;

  before(async () => {
    // A lease of 6 s, which is extended every 2 s.
    h = await startHarness({ ATTEMPT_TIMEOUT_SECONDS: '1' }, 'all', {
      sender: senderWithPlaces(async (real, ...asked) => {
        await hasPlace;
        const place = await real.place(...asked);
        return isCutOff ? cutOff(place) : place;
      }),
    });
    await h.startWorker();
    receiver = await startReceiver();
  });
  after(async () => {
    await receiver.close();
    await h.close();
  });

  /** A delivered notification. */
  async function delivered(platformId: string) {
    const clientToken = await h.newClient(receiver.url);
    const { id } = await h.publish({ client: clientToken, asset: platformId });
    await until('delivered', async () => (await h.notification(clientToken, id))?.state === 'delivered');
    return { clientToken, platformId, notificationId: id, priority: 'live' as const };
  }

  it('is sent however long it waits for a connection: it extends its lease', async () => {
    const told = await delivered('waits');
    const gate = startGate();
    hasPlace = gate.closed;
    const outcome = h.deps.engine.join(told, 'redeliver');
    const leaseEnd = async () => (await h.db.redis.hvals(h.db.client(told.clientToken).resends))[0];
    const end = await until('it is taken', leaseEnd);
    await until('its lease is extended', async () => (await leaseEnd()) !== end, 10_000).finally(gate.open);
    assert.equal((await outcome).state, 'delivered');
    assert.equal(receiver.idsOf('waits').length, 2);
  });

  it('leaves its place to others after a failure of our own', async () => {
    const told = await delivered('fails');
    isCutOff = true;
    const outcome = await h.deps.engine.join(told, 'redeliver');
    assert.ok(outcome.state === 'waiting' && outcome.reason === 'own_failure');
    await until(
      'its place is free',
      async () => (await getEndpoint(h.db, told.clientToken)).inFlight === 0,
      5000,
    );
  });
});
