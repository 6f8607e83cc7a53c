import assert from 'node:assert/strict';
import { setClient } from '../../src/redis/records/clients.js';
import { getEndpoint, pauseEndpoint, unpauseEndpoint } from '../../src/redis/records/endpoint.js';
import { type Harness, type Receiver, startHarness, startReceiver, until } from './harness.js';

describe('Drains of many clients', () => {
  let h: Harness;
  let receiver: Receiver;

  before(async () => {
    h = await startHarness();
    await h.startWorker({ retries: 2, upkeep: 2 });
    receiver = await startReceiver();
  });
  after(async () => {
    await receiver.close();
    await h.close();
  });

  async function owing(assets: number): Promise<string> {
    const client = await h.newClient(receiver.url);
    await pauseEndpoint(h.db, client);
    const names = Array.from({ length: assets }, (_, i) => `${client}-${i}`);
    await Promise.all(names.map((asset) => h.publish({ client, asset })));
    return client;
  }

  async function goOn(client: string): Promise<void> {
    await unpauseEndpoint(h.db, client);
    await h.wake(client);
  }

  it('a long one makes room for others, and comes back', async function () {
    this.timeout(120_000);
    // For each slot of this process a client that is sent one asset a second.
    const busy = await Promise.all([owing(90), owing(90)]);
    const third = await owing(1);
    for (const client of busy) {
      await setClient(h.db, client, { maxPerSecond: 1 });
      await goOn(client);
    }
    await until('both drain', () => busy.every((client) => receiver.idsOf(`${client}-0`).length === 1));
    await goOn(third);
    await until('the third is sent its own', () => receiver.idsOf(`${third}-0`).length === 1, 100_000);
    const sent = receiver.received.length;
    for (const client of busy) assert.ok((await getEndpoint(h.db, client)).owed > 10, 'they had more to do');
    await until('they go on', () => receiver.received.length > sent + 4);
  });
});
