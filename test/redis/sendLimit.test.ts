import assert from 'node:assert/strict';
import type { Db } from '../../src/redis/connection/db.js';
import { runScript } from '../../src/redis/connection/library.js';
import { newDeliveryClient } from './deliveryClient.js';

const sendEveryMs = 5000;
const takeSend = async (db: Db, clientToken: string) =>
  (await runScript(db, 'takeSend', clientToken, [sendEveryMs, 5])) as number;

describe('calls that send something', () => {
  it('may come one in 5 s, and at most five saved up at once, of each client', async () => {
    const [client, other] = [await newDeliveryClient(), await newDeliveryClient()];
    const allowed = async (calls: number) => {
      const call = () => takeSend(client.db, client.clientToken);
      const waits = await Promise.all(Array.from({ length: calls }, call));
      assert.ok(waits.every((waitMs) => waitMs <= sendEveryMs));
      return waits.filter((waitMs) => waitMs === 0).length;
    };
    for (const [passed, expected] of [
      [0, 5],
      [1, 1],
      [2, 2],
      [100, 5],
    ] as const) {
      client.pass(passed * sendEveryMs);
      assert.equal(await allowed(7), expected, `after the time of ${passed}`);
    }
    assert.equal(await takeSend(other.db, other.clientToken), 0);
  });
});
