import assert from 'node:assert/strict';
import { type Harness, type Receiver, startGate, startHarness, startReceiver, until } from './harness.js';

describe('An attempt that has waited for a connection', () => {
  let h: Harness;
  let receiver: Receiver;
  before(async () => {
    h = await startHarness({ connectionsPerOrigin: 1 });
    receiver = await startReceiver();
  });
  after(async () => {
    await receiver.close();
    await h.close();
  });

  it('begins its POST with a whole lease', async () => {
    const gates = [startGate(), startGate()];
    receiver.answer = async () => {
      await gates[receiver.received.length - 1]?.closed;
      return 200;
    };
    const client = await h.newClient(receiver.url);
    await h.publish({ client, asset: 'first' });
    const first = await until('the first is sent', () => receiver.received[0]);
    await h.publish({ client, asset: 'second' });
    const waitedMs = 4000;
    // Shorter than the time after which a waiting attempt extends its lease.
    assert.ok(waitedMs < h.deps.settings.leaseMs / 3);
    await until('the second has waited', () => Date.now() > first.at + waitedMs);
    gates[0]?.open();
    const second = await until('the second is sent', () => receiver.received[1]);
    const entry = await h.db.redis.hget(h.db.client(client).flight, 'second');
    const leaseEndsAt = Number(entry?.split(' ')[1]);
    const lostMs = h.deps.settings.leaseMs - (leaseEndsAt - second.at);
    assert.ok(lostMs < waitedMs - 1000, `it began ${lostMs} ms after its lease`);
    gates[1]?.open();
  });
});
