import assert from 'node:assert/strict';
import fc from 'fast-check';
import { runScript } from '../../src/redis/connection/library.js';
import { listNotifications, newestNotifications } from '../../src/redis/notifications/notificationPages.js';
import { getNotification } from '../../src/redis/notifications/notifications.js';
import {
  beginning,
  byFallingScore,
  type Place,
  placeArguments,
  placesOf,
} from '../../src/redis/notifications/place.js';
import { redeliver } from '../../src/redis/notifications/redeliver.js';
import { closeDeliveryClients, type DeliveryClient, minute, newDeliveryClient } from './deliveryClient.js';

describe('a page after a place of a sorted set', () => {
  after(closeDeliveryClients);

  const member = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 4 });
  const places = fc.uniqueArray(fc.record({ score: fc.nat({ max: 3 }), member }, { noNullPrototype: true }), {
    selector: (place) => place.member,
    maxLength: 30,
  });

  it('has the members of the sorted set there, also if the place is no longer in it', async () => {
    const { db, clientToken } = await newDeliveryClient();
    const keys = db.client(clientToken);
    const wanted = fc.record({ score: fc.nat({ max: 3 }), member }, { noNullPrototype: true });
    const read = {
      falling: async (place: Place) => {
        const args = [...placeArguments(place), 5, '', '', ''];
        return placesOf(((await runScript(db, 'listedPage', clientToken, args)) as string[][])[1] ?? []);
      },
      rising: async ({ score, member }: Place) => {
        const answer = (await runScript(db, 'updatesPage', clientToken, [score, member, 5])) as unknown[];
        return placesOf((answer[5] as string[]).filter((_, i) => i % 3 < 2));
      },
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
          const behind = (sign: 1 | -1) => (one: Place) => sign * byFallingScore(one, place) > 0;
          assert.deepEqual(await read.falling(place), falling.filter(behind(1)).slice(0, 5));
          const rising = falling.filter(behind(-1)).reverse();
          assert.deepEqual(await read.rising(place), rising.slice(0, 5));
        }
        assert.deepEqual(await read.falling(beginning), falling.slice(0, 5));
      }),
      { numRuns: 100 },
    );
  });
});

describe('the notifications of an asset', () => {
  after(closeDeliveryClients);

  const of = async (client: DeliveryClient, platformId: string): Promise<string[]> => {
    const page = await listNotifications(client.db, client.clientToken, { platformId, limit: 200 });
    return page.notifications.map((one) => one.notificationId);
  };
  const claimed = async (client: DeliveryClient, platformId: string, count: number): Promise<string[]> => {
    const ids: string[] = [];
    for (let i = 0; i < count; i++) {
      ids.unshift((await client.owe(platformId)).notificationId);
      client.pass(1);
    }
    return ids;
  };

  it('are found among those of others, also if there are many', async () => {
    const client = await newDeliveryClient();
    const ids = await claimed(client, 'video', 130);
    await claimed(client, 'other', 250);
    assert.deepEqual(await of(client, 'video'), ids);
    assert.deepEqual(await of(client, 'another'), []);
  });

  it('include the owed one after 10,000 newer ones of other assets', async () => {
    const client = await newDeliveryClient();
    const ids = await claimed(client, 'video', 1);
    await claimed(client, 'other', 3);
    // As `trim_list` does.
    await client.db.redis.zpopmin(client.db.client(client.clientToken).notifications);
    assert.deepEqual(await of(client, 'video'), ids);
    assert.equal((await of(client, 'other')).length, 3);
  });
});

describe('lists of what is owed', () => {
  after(closeDeliveryClients);

  it('over clients include notifications in flight, and compare since with the acceptance', async () => {
    const client = await newDeliveryClient();
    await client.owe('old');
    await client.owe('old-and-new');
    client.pass(minute);
    const since = client.now();
    await client.owe('old-and-new');
    await redeliver(client.db, client.clientToken, (await client.owe('in-flight')).notificationId);
    await client.take(1);
    const newest = async (options: { since?: number; limit: number }) => {
      const found = await newestNotifications(client.db, [client.clientToken], {
        waitingOnly: true,
        ...options,
      });
      return found.map((one) => one.platformId);
    };
    assert.deepEqual(await newest({ limit: 10 }), ['in-flight', 'old-and-new', 'old']);
    assert.deepEqual(await newest({ since, limit: 10 }), ['in-flight', 'old-and-new']);
    assert.deepEqual(await newest({ since, limit: 1 }), ['in-flight']);
  });
});

const listedAtMost = 10_000;
const keptSeconds = 14 * 86_400;

describe('the log of a client: 10,000 notifications, 14 days after the end, owed ones always', () => {
  after(closeDeliveryClients);

  const keysOf = (client: DeliveryClient) => client.db.client(client.clientToken);
  const delivered = async (client: DeliveryClient, asset: string) => {
    const owed = await client.owe(asset);
    await client.attempt(owed, { ok: true });
    return owed.notificationId;
  };

  /** So many are listed already, all newer than the oldest ones of the test. */
  async function fill(client: DeliveryClient, count: number): Promise<void> {
    const members: (string | number)[] = [];
    for (let i = 0; i < count; i++) members.push(client.now(), `msg_${i}`);
    await client.db.redis.zadd(keysOf(client).notifications, ...members);
  }

  it('drops the oldest with its record beyond the count, except owed ones, which are listed as waiting', async () => {
    const client = await newDeliveryClient();
    const ended = await delivered(client, 'ended');
    const { notificationId: waiting } = await client.owe('waiting');
    await fill(client, listedAtMost - 2);
    await client.owe('one-more');
    await client.owe('and-another');
    assert.equal(await client.db.redis.zcard(keysOf(client).notifications), listedAtMost);
    assert.equal(await getNotification(client.db, client.clientToken, ended), undefined);
    assert.equal((await getNotification(client.db, client.clientToken, waiting))?.state, 'waiting');
    const listed = await listNotifications(client.db, client.clientToken, { state: 'waiting', limit: 10 });
    assert.deepEqual(
      listed.notifications.map((n) => n.platformId).sort(),
      ['and-another', 'one-more', 'waiting'].sort(),
    );
  });

  it('expires a record 14 days after its end, and never a waiting one', async () => {
    const client = await newDeliveryClient();
    const ended = await delivered(client, 'ended');
    const { notificationId: waiting } = await client.owe('waiting');
    const ttl = (id: string) => client.db.redis.ttl(keysOf(client).notification(id));
    const left = await ttl(ended);
    assert.ok(left > keptSeconds - 60 && left <= keptSeconds, `${left} s`);
    assert.equal(await ttl(waiting), -1);
  });
});
