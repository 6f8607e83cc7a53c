import assert from 'node:assert/strict';
import { recoverFailed, redeliver, trimFailed } from '../../src/redis/notifications/redeliver.js';
import { beginReplay, countSpan, moveReplay } from '../../src/redis/notifications/replay.js';
import { getEndpoint } from '../../src/redis/records/endpoint.js';
import { resetRegistration } from '../../src/redis/records/registrations.js';
import { keysMatching } from '../keysMatching.js';
import { startOwnRedis } from '../ownRedis.js';
import { forTest, openForSuite } from '../servers.js';
import { type DeliveryClient, day, fail, hour, minute, newDeliveryClient, ok } from './deliveryClient.js';

/** Of each, its notification is delivered. */
async function deliver(client: DeliveryClient, ...assets: string[]): Promise<void> {
  for (const asset of assets) await client.attempt(await client.owe(asset), ok);
}

describe('Recover', () => {
  const redis = openForSuite(() => startOwnRedis());

  it('reads the attempts under way once, however many assets it owes again', async () => {
    const client = await newDeliveryClient({}, redis.url);
    for (let i = 0; i < 20; i++) await client.owe(`failed-${i}`);
    client.pass(31 * day);
    await client.plan();
    await client.owe('under way');
    await client.take();
    await client.db.redis.config('RESETSTAT');
    await recoverFailed(client.db, client.clientToken, { since: 0, dryRun: false });
    assert.match(await client.db.redis.info('commandstats'), /cmdstat_hvals:calls=1,/);
    assert.equal((await client.plan()).owed, 21);
  });
});

describe('A redelivery', () => {
  it('of what failed before failed assets were let go says since when it has not arrived', async () => {
    const client = await newDeliveryClient({ keepFailedMs: day });
    const claimedAt = client.now();
    const { notificationId } = await client.owe('failed');
    client.pass(31 * day);
    await client.plan();
    client.pass(2 * day);
    await trimFailed(client.db, client.clientToken);
    await redeliver(client.db, client.clientToken, notificationId);
    const { owed, deliveredUntil = 0 } = await getEndpoint(client.db, client.clientToken);
    assert.equal(owed, 1);
    assert.ok(deliveredUntil <= claimedAt, `${deliveredUntil - claimedAt} ms`);
  });
});

describe('A replay', () => {
  const client = forTest(() =>
    newDeliveryClient({ drainPerSecond: 1, retryScheduleMs: [hour], failingAfter: 100 }),
  );
  const replays = async () => (await getEndpoint(client.db, client.clientToken)).replay;

  it('goes on while as much as it keeps waiting waits for long retries', async () => {
    await deliver(client, ...Array.from({ length: 20 }, (_, i) => `delivered-${i}`));
    for (let i = 0; i < 5; i++) await client.attempt(await client.owe(`failing-${i}`), fail);
    await beginReplay(client.db, client.clientToken, { since: 0 });
    assert.deepEqual([(await replays())?.count, (await replays())?.runs], [20, false]);
  });

  it('of a time that is past has what a newer event without a notification has moved, or a clock that was ahead', async () => {
    const { db, clientToken } = client;
    await deliver(client, 'moved');
    await db.redis.del(...(await keysMatching(db, '*notification:*')));
    client.setAhead(365 * day);
    await deliver(client, 'ahead');
    client.setAhead(0);
    await deliver(client, 'behind');
    client.pass(hour);
    const until = client.now() - minute;
    await resetRegistration(db, clientToken);
    assert.equal((await client.claim(client.event({ platformId: 'moved' }))).kind, 'none');
    await client.register();
    const span = { since: client.now() - day, until };
    assert.equal((await countSpan(db, clientToken, span, () => {})).count, 2);
    await beginReplay(db, clientToken, span);
    assert.deepEqual([(await replays())?.count, (await replays())?.runs], [2, false]);
  });

  it('has what an event without a notification moves while it runs', async () => {
    const { db, clientToken } = client;
    const names = Array.from({ length: 12 }, (_, i) => `delivered-${i}`);
    await deliver(client, ...names);
    await beginReplay(
      client.db,
      client.clientToken,
      { since: 0 },
      { ...db, settings: { ...db.settings, drainPerSecond: 0 } },
    );
    assert.equal((await replays())?.runs, true);
    await resetRegistration(db, clientToken);
    assert.equal((await client.claim(client.event({ platformId: 'delivered-3' }))).kind, 'none');
    await client.register();
    await moveReplay({ ...db, settings: { ...db.settings, drainPerSecond: 100 } }, clientToken);
    assert.deepEqual([(await replays())?.count, (await replays())?.runs], [12, false]);
  });

  it('is moved by its call over 10,000 assets at most, and by catch-up over more', async () => {
    const { db, clientToken } = client;
    const { feed, endpoint } = db.client(clientToken);
    const unsent = Array.from({ length: 20_000 }, (_, i) => [
      client.now() * 1000 - 30_000 + i,
      `unsent-${i}`,
    ]);
    await db.redis.zadd(feed, ...unsent.flat());
    await beginReplay(db, clientToken, { since: 0 });
    const at = Number(await db.redis.hget(endpoint, 'replay_at'));
    const moved = await db.redis.zcount(feed, '-inf', at); // fewer where 2.5 s pass before
    assert.ok(moved >= 200 && moved <= 10_000, `${moved} moved`);
    while ((await replays())?.runs) await moveReplay(db, clientToken);
    assert.equal((await client.plan()).owed, 0);
  });
});
