import assert from 'node:assert/strict';
import { readSteps, witnessClocks } from '../../src/redis/connection/clocks.js';
import { cancelNotification, redeliver } from '../../src/redis/notifications/redeliver.js';
import { announceClaims, setAside } from '../../src/redis/owed/owedClients.js';
import { recordChange } from '../../src/redis/records/audit.js';
import { getEndpoint } from '../../src/redis/records/endpoint.js';
import { forTest, itWithOneRedis } from '../servers.js';
import { keptLog } from '../service.js';
import { day, fail, hour, minute, newDeliveryClient } from './deliveryClient.js';

describe("Redis' clock", () => {
  const client = forTest(() => newDeliveryClient({ retryScheduleMs: [4 * hour] }));
  const kept = forTest(() => keptLog());
  const witness = () => witnessClocks(client.db, kept.log);

  itWithOneRedis(
    'that steps back for less time than a client was idle is seen, told once, and nothing of the client stands still',
    async () => {
      const owed = await client.owe('video');
      await client.attempt(owed, fail);
      await client.plan();
      client.pass(10 * minute);
      await witness();
      client.pass(-5 * minute);
      const lateMs = async () => (await getEndpoint(client.db, client.clientToken)).catchUpLateMs;
      assert.ok((await lateMs()) <= 0);
      await witness();
      assert.ok((await lateMs()) > day, 'the sweep sets the alarm');
      assert.deepEqual(
        (await client.take()).map((one) => one.platformId),
        ['video'],
      );
      await witness();
      const told = kept.lines.filter((line) => String(line.msg).includes('has stepped back'));
      assert.deepEqual([told.length, (await readSteps(client.db)).length], [1, 1]);
      assert.ok(Math.abs(Number(told[0]?.back_ms) - 5 * minute) < minute);
    },
  );

  it('that has leapt ahead makes no announcement old: the client stays in the index', async () => {
    const { db, clientToken } = client;
    const { owedClients } = db.global;
    await announceClaims(db, clientToken);
    client.setAhead(11 * minute);
    await setAside(db, clientToken, hour);
    assert.notEqual(await db.redis.zscore(owedClients, clientToken), null);
    client.setAhead(0);
    client.pass(11 * minute);
    await setAside(db, clientToken, hour);
    assert.equal(await db.redis.zscore(owedClients, clientToken), null);
  });

  itWithOneRedis(
    'stands in an older store when a backup is restored, which is no step of the clock, nor is a step an older store',
    async () => {
      const key = client.db.global.clock;
      const says = () => kept.lines.map(({ msg }) => String(msg)).filter((msg) => /older|stepped/.test(msg));
      await witness();
      const backup = (await client.db.redis.dumpBuffer(key)) as Buffer;
      const savedAt = Number(await client.db.redis.hget(key, 'seen'));
      client.pass(30_000);
      await witness();
      await client.db.redis.restore(key, 0, backup, 'REPLACE');
      await witness();
      assert.deepEqual(says(), [], 'a failover may lose seconds');
      client.pass(day);
      await witness();
      await client.db.redis.restore(key, 0, backup, 'REPLACE');
      await witness();
      await witness();
      const missing = `the store is an older one: what was written after ${new Date(savedAt).toISOString()} is missing`;
      assert.deepEqual(says(), [missing]);
      assert.deepEqual(
        (await readSteps(client.db)).map(({ olderFrom }) => olderFrom),
        [savedAt],
      );
      client.pass(-hour);
      await witness();
      assert.equal(says().length, 2);
    },
  );

  itWithOneRedis('that runs ahead of the service is told, and ends nothing for good', async () => {
    await client.owe('video');
    client.setAhead(32 * day);
    await witness();
    const { owed, expired } = await client.plan();
    assert.deepEqual([owed, expired], [1, 0]);
    client.setAhead(0);
    await witness();
    const told = kept.lines.map((line) => String(line.msg));
    for (const says of ['the clocks of redis and this process differ', 'agree again', 'has stepped back'])
      assert.equal(told.filter((msg) => msg.includes(says)).length, 1, says);
  });

  const minutesAhead = 2 * minute;
  const backBehind = async () => {
    client.setAhead(-minutesAhead);
    await witness();
    for (const { owed, expired } of [await client.plan(), await client.plan()])
      assert.deepEqual([owed, expired], [2, 0]);
    const taken = await client.take();
    assert.deepEqual(taken.map((one) => one.platformId).sort(), ['first', 'second']);
  };

  it('that leaps from ahead, and steps behind before a client is seen, ends nothing for good', async () => {
    client.setAhead(minutesAhead);
    await client.owe('first');
    client.setAhead(32 * day);
    await client.owe('second');
    await backBehind();
  });

  it('that leaps unseen while something is sent again, and steps behind, ends nothing for good', async () => {
    const { notificationId } = await client.owe('first');
    await cancelNotification(client.db, client.clientToken, notificationId);
    client.setAhead(32 * day);
    await redeliver(client.db, client.clientToken, notificationId);
    client.setAhead(minutesAhead);
    await client.owe('second');
    await backBehind();
  });

  it('that is years ahead for a moment forgets no change of an operator', async () => {
    const change = { who: 'Ada', what: 'client set', target: 'N', before: null, after: null };
    for (let i = 0; i < 250; i++) await recordChange(client.db, change);
    client.setAhead(1000 * day);
    await recordChange(client.db, change);
    assert.equal(await client.db.redis.xlen(client.db.global.audit), 251);
  });
});
