import assert from 'node:assert/strict';
import { assetSlot } from '../../src/ids.js';
import { witnessClocks } from '../../src/redis/connection/clocks.js';
import { closeDb, waitForRedis } from '../../src/redis/connection/db.js';
import { forgetAsset } from '../../src/redis/notifications/decisions.js';
import {
  createUpdateWaits,
  feedBeginning,
  type Place,
  placeBefore,
  readUpdates,
  trimUpdates,
} from '../../src/redis/notifications/updates.js';
import { startProxy } from '../proxy.js';
import { startRespProxy } from '../respProxy.js';
import { connectDb, forTest, itWithOneRedis, opened, servers } from '../servers.js';
import { keptLog } from '../service.js';
import { type DeliveryClient, day, hour, newDeliveryClient, snapshot } from './deliveryClient.js';

describe('the feed of updates', () => {
  const client = forTest(() => newDeliveryClient());

  async function page(of: DeliveryClient, after?: Place, limit = 200) {
    const found = await readUpdates(of.db, of.clientToken, limit, after);
    assert.ok(found, 'the place is known');
    return found;
  }
  const claim = (of: DeliveryClient, ...ids: string[]) =>
    of.claims(
      ids.map((platformId) => of.event({ platformId })),
      { most: 0 },
    );

  it('has each asset once, by its newest update, and skips none while others come', async () => {
    const ids = Array.from({ length: 300 }, (_, i) => `vid-${i}`);
    for (let i = 0; i < 300; i += 100) await claim(client, ...ids.slice(i, i + 100));
    const seen: string[] = [];
    let place: Place = feedBeginning;
    for (let found = await page(client, place, 50); found.updates.length > 0; ) {
      seen.push(...found.updates.map(({ platformId }) => platformId));
      place = found.end;
      // Ahead of the reader, and behind.
      if (seen.length <= 100) await claim(client, 'vid-299', 'vid-0');
      found = await page(client, place, 50);
    }
    assert.equal(new Set(seen).size, 300);
    assert.deepEqual(seen.slice(-2), ['vid-299', 'vid-0']);
    assert.equal((await page(client, undefined, 1000)).updates.length, 300);
  });

  it('goes on in the order of the claims while the clock is set back, and has the right time again', async () => {
    await claim(client, 'a');
    client.setAhead(hour);
    await claim(client, 'b');
    const { end, updates } = await page(client);
    client.setAhead(0);
    const before = client.now();
    await claim(client, 'c');
    const [c] = (await page(client, end)).updates;
    assert.deepEqual([updates.length, c?.platformId], [2, 'c']);
    const [at, ahead] = [c?.updatedAtUs ?? 0, updates[1]?.updatedAtUs ?? 0];
    assert.ok(at >= before * 1000 && at < client.now() * 1000 + 1000);
    assert.ok(ahead - at > 59 * 60_000_000);
  });

  it('forgets an asset that was forgotten, and a place there is kept', async () => {
    await claim(client, 'a', 'b');
    const { end } = await page(client);
    assert.equal(end.platformId, 'b');
    await forgetAsset(client.db, client.clientToken, 'b');
    assert.deepEqual(
      (await page(client)).updates.map((one) => one.platformId),
      ['a'],
    );
    await claim(client, 'c');
    assert.deepEqual(
      (await page(client, end)).updates.map((one) => one.platformId),
      ['c'],
    );
  });

  it('refuses a place that an older store does not know, also after later updates of others', async () => {
    await claim(client, 'a', 'b');
    const restore = await snapshot(client);
    await claim(client, 'b', 'c');
    const { end } = await page(client);
    const { end: ofB } = await page(client, undefined, 2);
    assert.deepEqual([ofB.platformId, end.platformId], ['b', 'c']);
    await restore();
    const lost = async (place: Place) =>
      (await readUpdates(client.db, client.clientToken, 200, place)) === undefined;
    assert.deepEqual([await lost(ofB), await lost(end)], [true, true]);
    await claim(client, 'd');
    assert.deepEqual([await lost(ofB), await lost(end)], [true, true]);
    assert.equal((await page(client)).updates.length, 3);
  });

  itWithOneRedis(
    'refuses a place that an older store does not know, also after a later update of the asset there',
    async () => {
      const witness = () => witnessClocks(client.db, keptLog().log);
      await claim(client, 'a', 'b');
      // What was written in the millisecond of the witness may be gone, too.
      client.pass(10);
      await witness();
      const restore = await snapshot(client, client.db.global.clock);
      const { end: before } = await page(client);
      client.pass(120_000);
      await witness();
      await claim(client, 'c', 'b');
      const { end } = await page(client);
      await restore();
      client.pass(1000);
      await witness();
      await claim(client, 'b');
      assert.equal(end.platformId, 'b');
      assert.equal(await readUpdates(client.db, client.clientToken, 200, end), undefined);
      assert.deepEqual(
        (await page(client, before)).updates.map((one) => one.platformId),
        ['b'],
      );
    },
  );

  it('keeps an asset while its segments are known, and refuses a place once their time has passed for others', async () => {
    const own = await newDeliveryClient({ keepSegmentsSeconds: 60 });
    const since = placeBefore(own.now());
    const { end: empty } = await page(own, since);
    await claim(own, 'a', 'b', 'c');
    const first = (await page(own, undefined, 1)).end;
    const key = own.db.client(own.clientToken).feed;
    // As if the time of the segments of b were over.
    const { bucket, field } = assetSlot('b');
    await own.db.redis.hdel(own.db.client(own.clientToken).known(bucket), field);
    assert.deepEqual(
      (await page(own, first)).updates.map((one) => one.platformId),
      ['c'],
    );
    await claim(own, 'b');
    await own.db.redis.hdel(own.db.client(own.clientToken).known(bucket), field);
    await trimUpdates(own.db, own.clientToken);
    assert.deepEqual((await own.db.redis.zrange(key, '0', '-1')).sort(), ['a', 'c']);
    await claim(own, 'd');
    const { end } = await page(own);
    own.pass(day);
    assert.equal(
      await readUpdates(own.db, own.clientToken, 10, first),
      undefined,
      'it is older than a minute',
    );
    assert.equal(
      await readUpdates(own.db, own.clientToken, 10, empty),
      undefined,
      'so is a page without any',
    );
    assert.ok(await page(own, since), 'whoever names a time knows no more');
    assert.deepEqual((await page(own, end)).updates, [], 'nothing followed');
    assert.equal((await page(own)).updates.length, 3);
  });

  itWithOneRedis('is heard of again by those who wait, after a router has forgotten the line', async () => {
    const proxy = opened(await startProxy(servers().redisUrl));
    const { clientToken } = client;
    const { prefix } = client.db;
    const db = opened(await connectDb(proxy.url, prefix, { commandTimeoutMs: 2000 }), closeDb);
    const waits = createUpdateWaits(db);
    const isWoken = () => waits.next(clientToken, feedBeginning, 20_000, new AbortController().signal);
    assert.equal(await waits.next(clientToken, feedBeginning, 1, new AbortController().signal), false);
    const ended = new Promise((resolve) => db.redis.once('close', resolve));
    proxy.forget();
    proxy.reach();
    void db.redis.echo('').catch(() => undefined);
    await ended;
    await waitForRedis(db, 10_000);
    assert.equal(await isWoken(), true, 'nothing tells that the line is dead');
  });

  itWithOneRedis('leaves nothing behind where Redis refuses the subscription of one who waits', async () => {
    const proxy = opened(await startRespProxy(servers().redisUrl));
    const db = opened(await connectDb(proxy.url, client.db.prefix), closeDb);
    const waits = createUpdateWaits(db);
    const next = () => waits.next(client.clientToken, feedBeginning, 1, new AbortController().signal);
    const before = db.redis.listenerCount('end');
    proxy.refused.set('PSUBSCRIBE', 'ERR max requests limit exceeded');
    for (let i = 0; i < 20; i++) await assert.rejects(next(), /limit exceeded/);
    assert.equal(db.redis.listenerCount('end'), before);
    proxy.refused.clear();
    assert.equal(await next(), false);
  });
});
