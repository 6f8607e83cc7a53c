import assert from 'node:assert/strict';
import { collectNewest, newestNotifications } from '../../src/redis/notifications/newestNotifications.js';
import {
  completeSince,
  listNotifications,
  notificationOfEvent,
  type Position,
} from '../../src/redis/notifications/notificationPages.js';
import { cancelNotification, redeliver } from '../../src/redis/notifications/redeliver.js';
import { beginReplay } from '../../src/redis/notifications/replay.js';
import { announceClaims } from '../../src/redis/owed/owedClients.js';
import { getEndpoint } from '../../src/redis/records/endpoint.js';
import { forTest } from '../servers.js';
import { day, minute, newDeliveryClient, ok, second } from './deliveryClient.js';

describe('the notifications of a client', () => {
  const client = forTest(() => newDeliveryClient());

  const keys = () => client.db.client(client.clientToken);
  const listed = async (filter: { platformId?: string } = {}): Promise<string[]> => {
    const ids: string[] = [];
    let behind: Position | undefined;
    do {
      const asked = { ...filter, limit: 200, behind };
      const { notifications, next } = await listNotifications(client.db, client.clientToken, asked);
      ids.push(...notifications.map((one) => one.notificationId));
      behind = next;
    } while (behind !== undefined);
    return ids;
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

  /** Lists so many that have ended, from this time on, and has the list trimmed. */
  const list = async (count: number, from: number): Promise<void> => {
    const ended = Array.from({ length: count }, (_, i) => [from + i, `msg_${from}_${i}`]);
    await client.db.redis.zadd(keys().notifications, ...ended.flat());
    for (let i = 0; i < count; i += 500) await client.plan();
  };

  it('of an asset are found among many of others', async () => {
    const ids = await owe('video', 130);
    await owe('other', 250);
    assert.deepEqual(await listed({ platformId: 'video' }), ids);
    assert.deepEqual(await listed({ platformId: 'another' }), []);
  });

  it('that are owed are all listed, each once, and found by their event, behind 10,000 others and while older ones are listed again', async () => {
    const events = ['beyond', 'other-1', 'other-2'].map((platformId) => client.event({ platformId }));
    for (const one of events) await client.claim(one);
    const [event = assert.fail()] = events;
    const { clientToken, db } = client;
    const find = async () => (await notificationOfEvent(db, clientToken, event.eventId))?.notificationId;
    for (const [count, from] of [
      [11_000, client.now() + 1],
      // As a replay does.
      [250, client.now() - minute],
    ] as const) {
      await list(count, from);
      assert.equal(await db.redis.zscore(keys().notifications, event.notificationId), null);
      assert.deepEqual(await listed({ platformId: 'beyond' }), [event.notificationId]);
      assert.equal(await find(), event.notificationId);
      assert.deepEqual((await listed()).sort(), events.map((one) => one.notificationId).sort());
    }
    await client.attempt(event, ok);
    assert.deepEqual(await listed({ platformId: 'beyond' }), []);
    await redeliver(db, clientToken, event.notificationId);
    assert.deepEqual(await listed({ platformId: 'beyond' }), [event.notificationId], 'it is owed again');
  });

  it('that end beyond the list keep their records for a while: a repeat after a lost answer is told the same, and so is their workflow', async () => {
    const first = await owe('listed-no-more');
    await client.owe('the-oldest');
    await list(10_000, client.now() + 1);
    await client.db.redis.zadd(keys().notifications, 0, first[0] ?? '');
    await list(1, client.now() + 20_000);
    for (const taken of await client.take()) {
      for (let i = 0; i < 2; i++) assert.equal((await client.settle(taken, ok)).result, 'delivered');
      const { platformId, notificationId } = taken;
      const seen = await client.look({ platformId, notificationId, claim: 1 });
      assert.equal(seen !== 'lost' && seen.state, 'delivered');
      const left = await client.db.redis.ttl(keys().notification(notificationId));
      assert.ok(left > 60 && left <= 180, `${left} s`);
    }
    assert.deepEqual(await listed({ platformId: 'the-oldest' }), []);
  });

  it('are complete since the newest 10,000, also once a replay has listed older ones again', async () => {
    client.db.settings.maxInFlight = 400;
    const events = Array.from({ length: 400 }, (_, i) => client.event({ platformId: `old-${i}` }));
    const { taken } = await client.claims(events, { most: 400 });
    const till = client.now();
    client.pass(day);
    const newer = client.now();
    await list(10_500, newer);
    await client.turn({ verdicts: taken.map((one) => client.verdict(one, ok)) });
    const { db, clientToken } = client;
    await db.redis.del(...taken.map((one) => keys().notification(one.notificationId)));
    const from = await completeSince(db, clientToken, 'accepted');
    assert.equal(from, newer + 500);
    const all = { ...db, settings: { ...db.settings, drainPerSecond: 1000 } };
    await beginReplay(all, clientToken, { since: 0, until: till });
    assert.equal((await getEndpoint(db, clientToken)).owed, 400);
    assert.equal(await completeSince(db, clientToken, 'accepted'), from);
  });

  it('that were cancelled are counted for 14 days, at any time of the day', async () => {
    const cancel = async (): Promise<number> => {
      const { notificationId } = await client.owe('video');
      await cancelNotification(client.db, client.clientToken, notificationId);
      return (await getEndpoint(client.db, client.clientToken)).cancelled;
    };
    client.pass(day - (client.now() % day) - minute);
    assert.equal(await cancel(), 1);
    client.pass(14 * day - second);
    assert.equal(await cancel(), 2);
    client.pass(2 * day);
    assert.equal(await cancel(), 2);
    const left = await client.db.redis.ttl(keys().cancelled);
    assert.ok(left > 14 * 86_400, `${left} s`);
  });

  it('are removed beyond the newest 10,000 in bounded steps, also where no new one comes', async () => {
    const ended = Array.from({ length: 20_000 }, (_, i) => [i, `msg_${i}`]).flat();
    await client.db.redis.zadd(keys().notifications, ...ended);
    const left = () => client.db.redis.zcard(keys().notifications);
    await client.claims([client.event({ platformId: 'video' })], { most: 0 });
    assert.equal(await left(), 19_501);
    const [taken] = await client.take();
    assert.ok(taken);
    await client.settle(taken, { ok: true });
    assert.equal(await left(), 19_001);
    for (let i = 0; i < 19; i++) await client.plan();
    assert.equal(await left(), 10_000);
  });

  it('are removed beyond the newest 10,000 that have ended, also of a client with many that have not and have left the list', async () => {
    for (let i = 0; i < 30; i++) await client.owe(`owed-${i}`);
    const ended = Array.from({ length: 10_200 }, (_, i) => [client.now() + 1 + i, `msg_${i}`]).flat();
    await client.db.redis.zadd(keys().notifications, ...ended);
    for (let i = 0; i < 3; i++) await client.plan();
    assert.equal(await client.db.redis.zcard(keys().unlisted), 30);
    assert.equal(await client.db.redis.zcard(keys().notifications), 10_000);
  });

  it('go on behind a place that has left the list', async () => {
    const ids = await owe('video', 5);
    const page = async (behind?: Position) =>
      await listNotifications(client.db, client.clientToken, { platformId: 'video', limit: 2, behind });
    const { next } = await page();
    await client.db.redis.zrem(keys().notifications, ids[1] ?? '');
    const { notifications } = await page(next);
    const listed = notifications.map((one) => one.notificationId);
    assert.deepEqual(listed, ids.slice(2, 4));
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
      const { notifications: found } = await newestNotifications(client.db, client.clientToken, wanted);
      const assets = found.map((one) => one.platformId);
      assert.deepEqual(assets, expected);
    }
  });

  it('are collected of many clients, with one call for those that have nothing newer, and say from when they are complete', async () => {
    await client.db.redis.zadd(client.db.client('OLD').notifications, client.now() - minute, 'msg_old');
    const [newest = '', second = ''] = await owe('video', 3);
    const list = collectNewest(client.db, { limit: 2 });
    await list.add([client.clientToken]);
    const commands: string[] = [];
    const { sendCommand } = client.db.redis;
    client.db.redis.sendCommand = (command, ...rest) => {
      commands.push(command.name);
      return sendCommand.call(client.db.redis, command, ...rest);
    };
    await list.add(['OLD']).finally(() => {
      client.db.redis.sendCommand = sendCommand;
    });
    assert.deepEqual(commands, ['FCALL']);
    const { notifications, next, since = 0 } = await list.read();
    assert.deepEqual(
      notifications.map((one) => one.notificationId),
      [newest, second],
    );
    assert.equal(next?.member, second);
    assert.ok(since < client.now() - 13 * 86_400_000);
    const leftOut = client.now() - minute;
    assert.equal((await list.read(leftOut)).since, since, 'what was left out is older than the list');
    const short = collectNewest(client.db, { limit: 20 });
    await short.add([client.clientToken]);
    assert.equal((await short.read(leftOut)).since, leftOut);
  });

  it('of all clients are found; where those that claimed lately fill the page, no other client is read', async () => {
    const ids = await owe('video', 3);
    const newest = async (limit: number) =>
      (await newestNotifications(client.db, undefined, { limit })).notifications.map(
        (one) => one.notificationId,
      );
    assert.deepEqual(await newest(5), ids);
    await announceClaims(client.db, client.clientToken);
    const { sscanStream } = client.db.redis;
    client.db.redis.sscanStream = (key, ...rest) => {
      assert.notEqual(key, client.db.global.clients);
      return sscanStream.call(client.db.redis, key, ...rest);
    };
    assert.deepEqual(await newest(2), ids.slice(0, 2));
    await assert.rejects(newest(5), assert.AssertionError);
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
