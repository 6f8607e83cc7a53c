/** What survives when Redis and Temporal are killed, cut off or lost, and how the rest is restored (docs/guides/disaster.md). */

import assert from 'node:assert/strict';
import { cp, readdir, rm, stat, truncate } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { logTail } from '../../local/child.js';
import { notificationId } from '../../src/ids.js';
import { waitForRedis } from '../../src/redis/connection/db.js';
import { RedisUnavailable } from '../../src/redis/connection/unavailable.js';
import { createClient } from '../../src/redis/records/clients.js';
import { setPaused } from '../../src/redis/records/endpoint.js';
import { getRegistration } from '../../src/redis/records/registrations.js';
import { workflowIds } from '../../src/temporal/workflowIds.js';
import { runDocumented } from './documentedCommands.js';
import { mint, register, type Scene, setScene } from './scene.js';
import { walk, withTemporal } from './walk.js';

const many = Array.from({ length: 20 }, (_, i) => `asset-${i}`);

describe('durability', function () {
  this.timeout(180_000);
  let scene: Scene;
  afterEach(() => scene?.stop());

  it('everything answered 200 or claimed survives a kill -9 of Redis right after the answer', async () => {
    scene = await setScene();
    const { system, db, cast } = scene;
    await system.receiver.breakOff();
    const promised: { clientToken: string; url: string; notificationId: string }[] = [];
    for (let i = 0; i < 5; i++) {
      const { clientToken } = await createClient(db, {
        accountId: cast.publisher.account_id,
        name: `Late ${i}`,
      });
      const url = `${system.receiverUrl}/${clientToken}`;
      await register(system.apiUrl, cast.publisherToken, clientToken, url);
      await restartRedis(scene);
      const [notificationId = ''] = await publish(scene, clientToken, 'a');
      await until(async () => (await isOwed(scene, clientToken)) > 0);
      await restartRedis(scene);
      promised.push({ clientToken, url, notificationId });
      assert.equal(await isOwed(scene, clientToken), 1);
    }
    for (const { clientToken, url } of promised)
      assert.equal((await getRegistration(db, clientToken))?.url, url);
    await system.receiver.open();
    await received(
      scene,
      promised.map((one) => one.notificationId),
    );
  });

  it('appendfsync everysec and a power failure: an event not on disk was not answered 202, and is accepted when it is sent again', async () => {
    scene = await setScene({ redisArgs: ['--appendfsync', 'everysec'] });
    const { system, db, cast } = scene;
    const [client = ''] = cast.clientTokens;
    await delivered(scene, client, ...(await publish(scene, client, 'before')));
    await system.receiver.breakOff();
    const write = () => db.durably((own) => own.redis.set('written', 1)).safe;
    await write();
    // Nothing is flushed from here on, as in the second before the next flush; what is written now is lost.
    await db.redis.config('SET', 'appendfsync', 'no');
    const file = await appendOnlyFile(join(system.dir, 'redis'));
    const flushed = await sizeOf(file);
    const { status, ids } = await tryToPublish(scene, client, many);
    assert.equal(status, 503, 'it is not known whether they were taken');
    assert.equal(await isOwed(scene, client), ids.length);
    await assert.rejects(write(), RedisUnavailable);
    await system.kill('redis');
    await tearOff(file, (await sizeOf(file)) - flushed);
    await system.start('redis');
    await waitForRedis(db, 10_000);
    await untilReady(scene);
    await system.receiver.open();
    await until(async () => (await tryToPublish(scene, client, many)).status === 202);
    await received(scene, ids);
  });

  it('backup and restore: copies of the append-only folder and of Temporal’s store restore what was owed', async () => {
    scene = await setScene();
    const { system, db, cast } = scene;
    const [client = ''] = cast.clientTokens;
    await system.receiver.breakOff();
    const ids = await publish(scene, client, 'a', 'b');
    await until(async () => (await isOwed(scene, client)) === 2);

    const redisDir = join(system.dir, 'redis');
    const backup = join(system.dir, 'backup');
    await db.redis.config('SET', 'auto-aof-rewrite-percentage', '0');
    await until(async () => /aof_rewrite_in_progress:0/.test(await db.redis.info('persistence')));
    await cp(join(redisDir, 'appendonlydir'), join(backup, 'appendonlydir'), { recursive: true });
    await system.end('temporal');
    await cp(join(system.dir, 'temporal'), join(backup, 'temporal'), { recursive: true });
    await system.start('temporal');

    await Promise.all([system.kill('redis'), system.kill('temporal')]);
    await rm(join(redisDir, 'appendonlydir'), { recursive: true });
    await rm(join(system.dir, 'temporal'), { recursive: true });
    await cp(join(backup, 'appendonlydir'), join(redisDir, 'appendonlydir'), { recursive: true });
    await cp(join(backup, 'temporal'), join(system.dir, 'temporal'), { recursive: true });
    await Promise.all([system.start('redis'), system.start('temporal')]);
    await waitForRedis(db, 10_000);
    await system.receiver.open();
    await received(scene, ids);
    await received(scene, [await publishSoon(scene, client, 'after')]);
  });

  it('an older copy of Redis, restored by the documented commands: later changes are gone, new events are not lost', async () => {
    // A failed first attempt is retried by its workflow for 12 s: it still runs when Redis goes back.
    scene = await setScene({ clients: 2, env: { RETRY_SCHEDULE_SECONDS: '4,4,4,4' } });
    const { system, db, cast } = scene;
    const [client = '', pausedLater = ''] = cast.clientTokens;
    const { clientToken: late } = await createClient(db, {
      ...{ accountId: cast.publisher.account_id, name: 'Late' },
    });
    const lateUrl = `${system.receiverUrl}/${late}`;
    const [before = ''] = await publish(scene, client, 'before');
    await delivered(scene, client, before);

    await runDocumented('folder while no rewrite can change it.', scene);

    await register(system.apiUrl, cast.publisherToken, late, lateUrl);
    const { clientToken: gone } = await createClient(db, {
      ...{ accountId: cast.publisher.account_id, name: 'Made after the copy' },
    });
    const tokenSince = await mint(system.apiUrl, cast.publisher);
    const [deliveredSince = ''] = await publish(scene, client, 'delivered-since');
    await delivered(scene, client, deliveredSince);
    await setPaused(db, pausedLater, true);
    const [left = ''] = await publish(scene, pausedLater, 'left-to-catch-up');
    await closed(scene, pausedLater, left);
    await system.receiver.breakOff();
    const [running = ''] = await publish(scene, client, 'running');
    await until(async () => (await isOwed(scene, client)) === 1);

    await runDocumented('To restore it, replace the present folder', scene);

    await waitForRedis(db, 10_000);
    await untilReady(scene);
    await system.receiver.open();
    await received(scene, [running]);
    assert.equal(await statusOf(scene, tokenSince, '/clients'), 401);
    assert.equal(await statusOf(scene, cast.publisherToken, '/clients'), 200);
    const registration = (token: string) => `/push_notifications?client_token=${token}`;
    assert.equal(await statusOf(scene, cast.publisherToken, registration(late)), 404);
    assert.equal(await statusOf(scene, cast.publisherToken, registration(gone)), 404);
    await register(system.apiUrl, cast.publisherToken, late, lateUrl);

    assert.equal(await publishSoon(scene, client, 'delivered-since'), deliveredSince);
    assert.equal(await publishSoon(scene, pausedLater, 'left-to-catch-up'), left);
    const now = await publish(scene, client, ...many);
    await received(scene, [left, ...now, await publishSoon(scene, late, 'a')]);
    const arrivals = (id: string) => system.receiver.arrivals.get(id)?.length;
    await until(async () => arrivals(deliveredSince) === 2);
    const again = await tryToPublish(scene, client, ['before']);
    assert.deepEqual([again.status, arrivals(before)], [202, 1]);
    for (const one of [...cast.clientTokens, late]) await until(async () => (await isOwed(scene, one)) === 0);
    assert.deepEqual(await unaccounted(scene), []);
  });

  it('all of Temporal’s store lost: owed assets are in Redis, and restarted workers send them', async () => {
    scene = await setScene();
    const { system, cast } = scene;
    const [client = ''] = cast.clientTokens;
    await system.receiver.breakOff();
    const ids = await publish(scene, client, 'a', 'b');
    await until(async () => (await isOwed(scene, client)) === 2);
    await system.kill('temporal');
    await rm(join(system.dir, 'temporal'), { recursive: true });
    await system.start('temporal');
    await system.end('worker');
    await system.start('worker');
    await system.receiver.open();
    await received(scene, ids);
  });
});

async function restartRedis(scene: Scene): Promise<void> {
  const { system, db } = scene;
  await system.kill('redis');
  await system.start('redis');
  await waitForRedis(db, 10_000);
  await untilReady(scene);
}

/** The service's connections come back by themselves, each in its time. */
async function untilReady({ system }: Scene): Promise<void> {
  await until(async () => (await fetch(`${system.apiUrl}/readyz`)).status === 200);
}

interface Tried {
  status: number;
  /** Those that the events get. */
  ids: string[];
  /** Those that the answer names. */
  told: (string | undefined)[];
}

/** Sends an event of each asset, in one call. */
async function tryToPublish(
  { system, cast }: Scene,
  clientToken: string,
  assets: readonly string[],
): Promise<Tried> {
  const segments = ['a'];
  const events = assets.map((asset) => ({
    ...{ client_token: clientToken, platform_id: asset, event_id: `of-${asset}`, segments },
  }));
  const response = await fetch(`${system.apiUrl}/enrichments`, {
    method: 'POST',
    headers: { authorization: `Bearer ${cast.platformToken}`, 'content-type': 'application/json' },
    body: JSON.stringify({ events }),
  });
  const { results = [] } = (await response.json()) as { results?: { notification_id?: string }[] };
  return {
    status: response.status,
    ids: assets.map((platformId) =>
      notificationId({ clientToken, platformId, eventId: `of-${platformId}`, segments }),
    ),
    told: results.map((one) => one.notification_id),
  };
}

/** @returns the ids of the notifications */
async function publish(scene: Scene, clientToken: string, ...assets: string[]): Promise<string[]> {
  const { status, ids, told } = await tryToPublish(scene, clientToken, assets);
  assert.deepEqual([status, told], [202, ids]);
  return ids;
}

/** While something still comes back the answer is 503, and the event is sent again. */
async function publishSoon(scene: Scene, clientToken: string, asset: string): Promise<string> {
  let id: string | undefined;
  await until(async () => {
    const { status, told } = await tryToPublish(scene, clientToken, [asset]);
    if (status !== 503) assert.equal(status, 202);
    [id] = told;
    return id !== undefined;
  });
  return id ?? '';
}

async function received({ system }: Scene, ids: readonly string[]): Promise<void> {
  const missing = () => ids.filter((id) => !system.receiver.arrivals.has(id));
  await until(
    async () => missing().length === 0,
    () => `not received: ${missing().join(', ')}\n${logTail(system.logOf('worker'))}`,
  );
}

/** Received, and its answer settled. */
async function delivered(scene: Scene, clientToken: string, ...ids: string[]): Promise<void> {
  await received(scene, ids);
  await until(async () => (await isOwed(scene, clientToken)) === 0);
}

async function isOwed({ db }: Scene, clientToken: string): Promise<number> {
  const { owed, flight } = db.client(clientToken);
  const [waiting, underWay] = await Promise.all([db.redis.hlen(owed), db.redis.hlen(flight)]);
  return waiting + underWay;
}

async function until(
  fact: () => Promise<boolean>,
  why: () => string = () => new Error('it did not come true').stack ?? '',
) {
  const end = Date.now() + 130_000;
  while (!(await fact())) {
    assert.ok(Date.now() < end, why());
    await pause(20);
  }
}

/** Its workflow has completed. */
const closed = (scene: Scene, clientToken: string, notificationId: string): Promise<void> =>
  withTemporal(scene, async ({ workflow }) => {
    const run = workflow.getHandle(workflowIds('notifications').enrichment(clientToken, notificationId));
    await until(async () => (await run.describe()).status.name === 'COMPLETED');
  });

async function statusOf({ system }: Scene, token: string, path: string): Promise<number> {
  return (await fetch(system.apiUrl + path, { headers: { authorization: `Bearer ${token}` } })).status;
}

/** Returns what does not agree in Redis and Temporal. */
const unaccounted = (scene: Scene): Promise<string[]> =>
  withTemporal(
    scene,
    async (temporal) => (await walk({ db: scene.db, temporal, taskQueue: 'notifications' })).found,
  );

/** The file that Redis appends to now: the newest of its append-only folder. */
async function appendOnlyFile(redisDir: string): Promise<string> {
  const dir = join(redisDir, 'appendonlydir');
  const number = (name: string) => Number(/\.(\d+)\.incr\.aof$/.exec(name)?.[1] ?? -1);
  const [newest] = (await readdir(dir))
    .filter((name) => number(name) >= 0)
    .sort((a, b) => number(b) - number(a));
  if (newest === undefined) throw new Error(`no append-only file in ${dir}`);
  return join(dir, newest);
}

async function sizeOf(file: string): Promise<number> {
  return (await stat(file)).size;
}

/** Makes the file that a crash in the middle of a write leaves. */
async function tearOff(file: string, bytes: number): Promise<void> {
  await truncate(file, (await sizeOf(file)) - bytes);
}
