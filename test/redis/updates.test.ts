import assert from 'node:assert/strict';
import { closeDb, waitForRedis } from '../../src/redis/connection/db.js';
import { createUpdateWaits, keptUpdates, readUpdates } from '../../src/redis/notifications/updates.js';
import { startProxy } from '../proxy.js';
import { connectDb, forTest, itWithOneRedis, opened, servers } from '../servers.js';
import { newDeliveryClient } from './deliveryClient.js';

describe('the feed of updates', () => {
  const client = forTest(() => newDeliveryClient());

  const read = (after?: string, limit = 200) => readUpdates(client.db, client.clientToken, limit, after);
  async function page(after?: string, limit?: number) {
    const found = await read(after, limit);
    assert.ok(found, 'the place is known');
    return found;
  }
  const key = () => client.db.client(client.clientToken).updates;

  it('accepts a place until 100,000 updates follow it, then refuses it', async () => {
    const claim = async (count: number) => {
      const events = Array.from({ length: count }, (_, i) => client.event({ platformId: `vid-${i}` }));
      await client.claims(events, { most: 0 });
    };
    /** As so many claims would: they take 10 s. */
    const add = `for i = 1, ARGV[1] do redis.call('XADD', KEYS[1], '*', 'id', 'msg_' .. i, 'asset', 'vid-' .. i) end`;
    const empty = (await page()).end;
    await claim(1);
    const { end } = await page();
    await client.db.redis.eval(add, 1, key(), keptUpdates - 2);
    await claim(1);
    let [seen, place] = [0, end];
    const next = () => page(place, 1000);
    for (let found = await next(); found.updates.length > 0; found = await next()) {
      seen += found.updates.length;
      place = found.end;
    }
    assert.equal(seen, keptUpdates - 1);
    // Redis cuts off one node of a stream at a time, by default 100 entries.
    await claim(101);
    assert.equal(await read(end), undefined, 'it is cut off');
    assert.equal(await read(empty), undefined, 'more than 100,000 came after an empty feed');
    assert.equal((await page(place)).updates.length, 101);
    assert.equal((await page()).updates.length, 200);
  });

  itWithOneRedis('is heard of again by those who wait, after a router has forgotten the line', async () => {
    const proxy = opened(await startProxy(servers().redisUrl));
    const { clientToken } = client;
    const { prefix } = client.db;
    const db = opened(await connectDb(proxy.url, prefix, { commandTimeoutMs: 2000 }), closeDb);
    const waits = createUpdateWaits(db);
    const isWoken = () => waits.next(clientToken, '0-0', 20_000, new AbortController().signal);
    assert.equal(await waits.next(clientToken, '0-0', 1, new AbortController().signal), false);
    const ended = new Promise((resolve) => db.redis.once('close', resolve));
    proxy.forget();
    proxy.reach();
    void db.redis.echo('').catch(() => undefined);
    await ended;
    await waitForRedis(db, 10_000);
    assert.equal(await isWoken(), true, 'nothing tells that the line is dead');
  });
});
