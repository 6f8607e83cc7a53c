/** What survives when Redis and Temporal are killed, cut off or lost, and how the rest is restored (docs/guides/disaster.md). */
import assert from 'node:assert/strict';
import { cp, readdir, rm, stat, truncate } from 'node:fs/promises';
import { join } from 'node:path';
import { notificationId } from '../../src/ids.js';
import { waitForRedis } from '../../src/redis/connection/db.js';
import { RedisUnavailable } from '../../src/redis/connection/unavailable.js';
import { createClient } from '../../src/redis/records/clients.js';
import { setPaused } from '../../src/redis/records/endpoint.js';
import { workflowIds } from '../../src/temporal/workflowIds.js';
import { until } from '../receiver.js';
import { callApi, newToken } from '../service.js';
import { type FaultScene, publishAll, register, setScene } from './scene.js';
import { walk, withTemporal } from './walk.js';

const many = Array.from({ length: 20 }, (_, i) => `asset-${i}`);

describe('durability', function () {
  this.timeout(180_000);
  let scene: FaultScene;
  afterEach(() => scene?.stop());

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
    const flushed = (await stat(file)).size;
    const { status, ids } = await tryToPublish(scene, client, many);
    assert.equal(status, 503, 'it is not known whether they were taken');
    assert.equal(await isOwed(scene, client), ids.length);
    await assert.rejects(write(), RedisUnavailable);
    await system.kill('redis');
    await truncate(file, flushed);
    await system.start('redis');
    await waitForRedis(db, 10_000);
    await untilReady(scene);
    await system.receiver.open();
    await comesTrue(async () => (await tryToPublish(scene, client, many)).status === 202);
    await received(scene, ids);
  });

  it('backup and restore: copies of the append-only folder and of Temporal’s store restore what was owed', async () => {
    scene = await setScene();
    const { system, db, cast } = scene;
    const [client = ''] = cast.clientTokens;
    await system.receiver.breakOff();
    const ids = await publish(scene, client, 'a', 'b');
    await comesTrue(async () => (await isOwed(scene, client)) === 2);

    await copyRedis(scene);
    const [store, copy] = [join(system.dir, 'temporal'), join(system.dir, 'temporal-copy')];
    await system.end('temporal');
    await cp(store, copy, { recursive: true });
    await system.start('temporal');

    await system.kill('temporal');
    await rm(store, { recursive: true });
    await cp(copy, store, { recursive: true });
    await Promise.all([restoreRedis(scene), system.start('temporal')]);
    await waitForRedis(db, 10_000);
    await system.receiver.open();
    await received(scene, ids);
    await received(scene, [await publishSoon(scene, client, 'after')]);
  });

  it('an older copy of Redis, restored: later changes are gone, new events are not lost', async () => {
    // A failed first attempt is retried by its workflow for 12 s: it still runs when Redis goes back.
    scene = await setScene({ clients: 2, env: { RETRY_SCHEDULE_SECONDS: '4' } });
    const { system, db, cast } = scene;
    const [client = '', pausedLater = ''] = cast.clientTokens;
    const { clientToken: late } = await createClient(db, {
      accountId: cast.publisher.account_id,
      name: 'Late',
    });
    const lateUrl = `${system.receiverUrl}/${late}`;
    const [before = ''] = await publish(scene, client, 'before');
    await delivered(scene, client, before);

    await copyRedis(scene);

    await register(system.apiUrl, cast.publisherToken, late, lateUrl);
    const { clientToken: gone } = await createClient(db, {
      accountId: cast.publisher.account_id,
      name: 'Made after the copy',
    });
    const tokenSince = await newToken({ url: system.apiUrl }, cast.publisher);
    const [deliveredSince = ''] = await publish(scene, client, 'delivered-since');
    await delivered(scene, client, deliveredSince);
    await setPaused(db, pausedLater, true);
    const [left = ''] = await publish(scene, pausedLater, 'left-to-catch-up');
    await closed(scene, pausedLater, left);
    await system.receiver.breakOff();
    const [running = ''] = await publish(scene, client, 'running');
    await comesTrue(async () => (await isOwed(scene, client)) === 1);

    await restoreRedis(scene);

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
    await comesTrue(async () => arrivals(deliveredSince) === 2);
    const again = await tryToPublish(scene, client, ['before']);
    assert.deepEqual([again.status, arrivals(before)], [202, 1]);
    for (const one of [...cast.clientTokens, late])
      await comesTrue(async () => (await isOwed(scene, one)) === 0);
    assert.deepEqual(await unaccounted(scene), []);
  });

  it('all of Temporal’s store lost: owed assets are in Redis, and restarted workers send them', async () => {
    scene = await setScene();
    const { system, cast } = scene;
    const [client = ''] = cast.clientTokens;
    await system.receiver.breakOff();
    const ids = await publish(scene, client, 'a', 'b');
    await comesTrue(async () => (await isOwed(scene, client)) === 2);
    await system.kill('temporal');
    await rm(join(system.dir, 'temporal'), { recursive: true });
    await system.start('temporal');
    await system.end('worker');
    await system.start('worker');
    await system.receiver.open();
    await received(scene, ids);
  });
});

/** The service's connections come back by themselves, each in its time. */
async function untilReady({ system }: FaultScene): Promise<void> {
  await comesTrue(async () => (await fetch(`${system.apiUrl}/readyz`)).status === 200);
}

/** Copies Redis' folder while no rewrite can change it (docs/guides/disaster.md). */
async function copyRedis({ system, db }: FaultScene): Promise<void> {
  await db.redis.config('SET', 'auto-aof-rewrite-percentage', '0');
  const info = () => db.redis.info('persistence');
  await comesTrue(async () => /aof_rewrite_in_progress:0/.test(await info()));
  await cp(join(system.dir, 'redis/appendonlydir'), join(system.dir, 'redis-copy'), { recursive: true });
  await db.redis.config('SET', 'auto-aof-rewrite-percentage', '100');
}

async function restoreRedis({ system }: FaultScene): Promise<void> {
  const folder = join(system.dir, 'redis/appendonlydir');
  await system.kill('redis');
  await rm(folder, { recursive: true });
  await cp(join(system.dir, 'redis-copy'), folder, { recursive: true });
  await system.start('redis');
}

/** Sends an event of each asset, in one call. @returns `ids` that the events get, and those that the answer names */
async function tryToPublish(scene: FaultScene, clientToken: string, assets: readonly string[]) {
  const segments = ['a'];
  const { status, results } = await publishAll(
    scene,
    assets.map((one) => ({ client_token: clientToken, platform_id: one, event_id: `of-${one}`, segments })),
  );
  const idOf = (platformId: string) =>
    notificationId({ clientToken, platformId, eventId: `of-${platformId}`, segments });
  return { status, ids: assets.map(idOf), told: results.map((one) => one.notification_id) };
}

/** @returns the ids of the notifications */
async function publish(scene: FaultScene, clientToken: string, ...assets: string[]): Promise<string[]> {
  const { status, ids, told } = await tryToPublish(scene, clientToken, assets);
  assert.deepEqual([status, told], [202, ids]);
  return ids;
}

/** While something still comes back the answer is 503, and the event is sent again. */
async function publishSoon(scene: FaultScene, clientToken: string, asset: string): Promise<string> {
  let id: string | undefined;
  await comesTrue(async () => {
    const { status, told } = await tryToPublish(scene, clientToken, [asset]);
    if (status !== 503) assert.equal(status, 202);
    [id] = told;
    return id !== undefined;
  });
  return id ?? '';
}

async function received({ system }: FaultScene, ids: readonly string[]): Promise<void> {
  for (const id of ids) await comesTrue(async () => system.receiver.arrivals.has(id), `${id} is received`);
}

/** Received, and its answer settled. */
async function delivered(scene: FaultScene, clientToken: string, ...ids: string[]): Promise<void> {
  await received(scene, ids);
  await comesTrue(async () => (await isOwed(scene, clientToken)) === 0);
}

async function isOwed({ db }: FaultScene, clientToken: string): Promise<number> {
  const { owed, flight } = db.client(clientToken);
  const [waiting, underWay] = await Promise.all([db.redis.hlen(owed), db.redis.hlen(flight)]);
  return waiting + underWay;
}

const comesTrue = (fact: () => Promise<boolean>, what = 'it came true') => until(what, fact, 130_000);

/** Its workflow has completed. */
const closed = (scene: FaultScene, clientToken: string, notificationId: string): Promise<void> =>
  withTemporal(scene, async ({ workflow }) => {
    const run = workflow.getHandle(workflowIds('notifications').enrichment(clientToken, notificationId));
    await comesTrue(async () => (await run.describe()).status.name === 'COMPLETED');
  });

const statusOf = async ({ system }: FaultScene, token: string, path: string): Promise<number> =>
  (await callApi(token, 'GET', system.apiUrl + path)).status;

/** Returns what does not agree in Redis and Temporal. */
const unaccounted = (scene: FaultScene): Promise<string[]> =>
  withTemporal(scene, (temporal) => walk({ db: scene.db, temporal, taskQueue: 'notifications' }));

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
