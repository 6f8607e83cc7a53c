import assert from 'node:assert/strict';
import { sendEveryMs, takeSendCall } from '../../src/redis/records/clients.js';
import { closeDeliveryClients, newDeliveryClient } from './deliveryClient.js';

describe('calls that send something: one in 5 s, bursts of 5', () => {
  after(closeDeliveryClients);

  it('allow a burst of five, then one in 5 s, however they are spread', async () => {
    const client = await newDeliveryClient();
    const call = () => takeSendCall(client.db, client.clientToken);
    const burst = await Promise.all(Array.from({ length: 6 }, call));
    assert.deepEqual(burst.slice(0, 5), [0, 0, 0, 0, 0]);
    assert.ok((burst[5] as number) > 0 && (burst[5] as number) <= sendEveryMs);
    for (let i = 0; i < 3; i++) {
      client.pass(sendEveryMs);
      assert.equal(await call(), 0);
      assert.ok((await call()) > 0, 'the time of one call brings one call');
    }
    client.pass(2 * sendEveryMs);
    assert.deepEqual([await call(), await call()], [0, 0]);
    assert.ok((await call()) > 0);
  });

  it('save at most 5 unused calls, for each client', async () => {
    const [client, other] = [await newDeliveryClient(), await newDeliveryClient()];
    client.pass(100 * sendEveryMs);
    const calls = Array.from({ length: 7 }, () => takeSendCall(client.db, client.clientToken));
    assert.equal((await Promise.all(calls)).filter((waitMs) => waitMs === 0).length, 5);
    assert.equal(await takeSendCall(other.db, other.clientToken), 0);
  });
});
