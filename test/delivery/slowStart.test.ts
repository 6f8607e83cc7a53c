import assert from 'node:assert/strict';
import { startReceiver, until } from '../receiver.js';
import { type Harness, startHarness } from '../service.js';

describe('A receiver that recovers', () => {
  let h: Harness;
  before(async () => {
    h = await startHarness({ failingAfter: 1, probeScheduleMs: [100] });
    await h.startWorker();
  });
  after(() => h.close());

  it('gets one request, then twice as many with each round of 2xx, up to its bound', async () => {
    const receiver = await startReceiver();
    const client = await h.newClient(receiver.url);
    receiver.answer = () => 500;
    await h.publish({ client, asset: 'fails' });
    await until('it fails', () => receiver.received.length > 0);
    await h.publishAll(client, 'waits', 80);
    const held: ((status: number) => void)[] = [];
    receiver.answer = () => new Promise((resolve) => held.push(resolve));
    for (const places of [1, 1, 2, 4, 8, 16, 16]) {
      await until(`${places} at once`, () => held.length >= places);
      assert.equal(held.length, places);
      for (const answer of held.splice(0)) answer(200);
    }
    receiver.answer = () => 200;
    await until('no more is held', () => {
      for (const answer of held.splice(0)) answer(200);
      return receiver.received.length > 80;
    });
    await h.noneOwed(client);
  });
});
