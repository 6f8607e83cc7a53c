import assert from 'node:assert/strict';
import fc from 'fast-check';
import { askScript } from '../../src/redis/connection/library.js';
import {
  beginning,
  byFallingScore,
  listNotifications,
  newestNotifications,
  type Position,
} from '../../src/redis/notifications/notificationPages.js';
import { redeliver } from '../../src/redis/notifications/redeliver.js';
import { type DeliveryClient, minute, newDeliveryClient } from './deliveryClient.js';

describe('a page after a place of a sorted set', () => {
  const member = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 4 });
  const places = fc.uniqueArray(fc.record({ score: fc.nat({ max: 3 }), member }, { noNullPrototype: true }), {
    selector: (place) => place.member,
    maxLength: 30,
  });

  it('has the members of the sorted set there, also if the place is no longer in it', async () => {
    const { db, clientToken } = await newDeliveryClient();
    const keys = db.client(clientToken);
    const wanted = fc.record({ score: fc.nat({ max: 3 }), member }, { noNullPrototype: true });
    const read = async ({ score, member }: Position) => {
      const args = ['accepted', score, member, 5, 0, '', '', ''];
      const answer = await askScript<{ entries?: Position[]; last?: Position }>(
        db,
        'listPage',
        clientToken,
        args,
      );
      const found = (answer.entries ?? []).map((one) => ({ score: one.score, member: one.member }));
      assert.deepEqual(answer.last, found.length === 5 ? found.at(-1) : undefined, 'the next begins');
      return found;
    };
    await fc.assert(
      fc.asyncProperty(places, wanted, fc.nat({ max: 29 }), async (all, other, n) => {
        await db.redis.del(keys.notifications);
        const adding = db.redis.pipeline();
        for (const { score, member } of all) {
          adding.zadd(keys.notifications, score, member).hset(keys.notification(member), { asset: 'video' });
        }
        await adding.exec();
        const falling = [...all].sort(byFallingScore);
        for (const place of [other, all[n] ?? other]) {
          const behind = falling.filter((one) => byFallingScore(one, place) > 0);
          assert.deepEqual(await read(place), behind.slice(0, 5));
        }
        assert.deepEqual(await read(beginning), falling.slice(0, 5));
      }),
      { numRuns: 100 },
    );
  });
});

describe('the notifications of a client', () => {
  let client: DeliveryClient;
  beforeEach(async () => {
    client = await newDeliveryClient();
  });

  const keys = () => client.db.client(client.clientToken);
  const listed = async (filter: { platformId: string } | { state: 'waiting' }): Promise<string[]> => {
    const page = await listNotifications(client.db, client.clientToken, { ...filter, limit: 200 });
    return page.notifications.map((one) => one.notificationId);
  };
  const owe = async (platformId: string, count = 1): Promise<string[]> => {
    const ids: string[] = [];
    for (let i = 0; i < count; i++) {
      ids.unshift((await client.owe(platformId)).notificationId);
      client.pass(1);
    }
    return ids;
  };
  const delivered = async (platformId: string): Promise<string> => {
    const owed = await client.owe(platformId);
    await client.attempt(owed, { ok: true });
    return owed.notificationId;
  };

  it('of an asset are found among many of others', async () => {
    const beyond = await owe('beyond');
    const ids = await owe('video', 130);
    await owe('other', 250);
    // As `trim_list` does.
    await client.db.redis.zpopmin(keys().notifications);
    assert.deepEqual(await listed({ platformId: 'beyond' }), beyond, 'it is owed');
    assert.deepEqual(await listed({ platformId: 'video' }), ids);
    assert.deepEqual(await listed({ platformId: 'another' }), []);
  });

  it('that are owed include those in flight, and compare since with the acceptance', async () => {
    await owe('old');
    await owe('old-and-new');
    client.pass(minute);
    const since = client.now();
    await owe('old-and-new');
    await redeliver(client.db, client.clientToken, (await client.owe('in-flight')).notificationId);
    await client.take(1);
    for (const [options, expected] of [
      [{ limit: 10 }, ['in-flight', 'old-and-new', 'old']],
      [{ since, limit: 10 }, ['in-flight', 'old-and-new']],
      [{ since, limit: 1 }, ['in-flight']],
    ] as const) {
      const wanted = { state: 'waiting' as const, ...options };
      const { notifications: found } = await newestNotifications(client.db, [client.clientToken], wanted);
      const assets = found.map((one) => one.platformId);
      assert.deepEqual(assets, expected);
    }
  });

  it('are kept for 14 days after their end, and while they wait', async () => {
    const [ended, again] = [await delivered('ended'), await delivered('owed-again')];
    await redeliver(client.db, client.clientToken, again);
    const ids = [ended, again, ...(await owe('waiting'))];
    const ttls = await Promise.all(ids.map((id) => client.db.redis.ttl(keys().notification(id))));
    const [left = 0, ...ofWaiting] = ttls;
    assert.ok(left > 14 * 86_400 - 60 && left <= 14 * 86_400, `${left} s`);
    assert.deepEqual(ofWaiting, [-1, -1]);
  });
});
