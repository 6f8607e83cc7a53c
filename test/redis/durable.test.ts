import assert from 'node:assert/strict';
import type { RedisServer } from '../../local/redis.js';
import type { Durability } from '../../src/config.js';
import type { Logger } from '../../src/log.js';
import { createMetrics } from '../../src/metrics.js';
import { closeDb, type Db } from '../../src/redis/connection/db.js';
import { RedisUnavailable } from '../../src/redis/connection/unavailable.js';
import { watchStoreHealth } from '../../src/storeMetrics.js';
import { startOwnRedis } from '../ownRedis.js';
import { succeeds, until } from '../receiver.js';
import { connectDb, opened } from '../servers.js';

describe('a durable write', () => {
  const start = async (args: readonly string[], port?: number) => opened(await startOwnRedis(args, port));

  /** @param given as the service's own without it: what cannot be confirmed is said soon */
  async function open(
    server: RedisServer,
    durability: Partial<Durability> = {},
    given: { commandTimeoutMs?: number } = {},
  ) {
    const said: string[] = [];
    const say = (...told: unknown[]) => said.push(String(told.at(-1)));
    const log = { warn: say, info: say } as unknown as Logger;
    const own = { durability: { trusted: false, ackReplicas: 0, ...durability } };
    const db = opened(await connectDb(server.url, 'test-', { log, ...own, ...given }), closeDb);
    /** How often the server was asked to confirm since it started. */
    const confirmations = async () => {
      const stats = await db.redis.info('commandstats');
      return Number(/cmdstat_waitaof:calls=(\d+)/.exec(stats)?.[1] ?? 0);
    };
    return { server, db, said, confirmations };
  }

  const everySecond = ['--appendfsync', 'everysec'];
  const patient = { commandTimeoutMs: 10_000 };
  const write = (db: Db, key = 'written') => db.durably((own) => own.redis.set(key, 1));
  const manyAtOnce = ({ db }: { db: Db }) =>
    Promise.all(Array.from({ length: 50 }, (_, i) => write(db, `written-${i}`).safe));

  it('of a trusted store is safe, without asking or warning', async () => {
    const scene = await open(await start(['--appendonly', 'no']), { trusted: true });
    await manyAtOnce(scene);
    assert.deepEqual([await scene.confirmations(), scene.said], [0, []]);
  });

  it('is confirmed by one WAITAOF with all of its turn, if Redis flushes every second', async () => {
    const scene = await open(await start(everySecond), {}, patient);
    const from = performance.now();
    const first = manyAtOnce(scene);
    await write(scene.db).answer;
    const last = Promise.all([manyAtOnce(scene), manyAtOnce(scene)]);
    await Promise.all([first, last]);
    const asked = await scene.confirmations();
    // Two connections ask again every 500 ms, until the disk has it.
    const most = 4 + 2 * Math.floor((performance.now() - from) / 500);
    assert.ok(asked <= most, `${asked} for 151 writes, ${most} at most`);
    assert.deepEqual(scene.said, []);
  });

  it('is not confirmed before the first log is written, whatever the settings say', async () => {
    const { db } = await open(await start(['--appendonly', 'no', '--rdb-key-save-delay', '100000']));
    await db.redis.mset(Array.from({ length: 100 }, (_, i) => [`before-${i}`, 1]).flat());
    await db.redis.config('SET', 'appendonly', 'yes');
    await assert.rejects(write(db).safe, RedisUnavailable);
  });

  it('cannot be confirmed without an append-only file: it is answered, and the operator is told once, also when that ends', async () => {
    const scene = await open(await start(['--appendonly', 'no']));
    await manyAtOnce(scene);
    await manyAtOnce(scene);
    assert.equal(scene.said.length, 1);
    const metrics = createMetrics();
    watchStoreHealth(metrics, scene.db.health);
    assert.match(await metrics.registry.metrics(), /redis_refusing\{reason="not_durable"\} 1/);
    await scene.db.redis.config('SET', 'appendonly', 'yes');
    await logWritten(scene.db);
    await manyAtOnce(scene);
    assert.match(await metrics.registry.metrics(), /redis_refusing\{reason="not_durable"\} 0/);
    const topics = scene.said.map((line) => line.split(':')[0]);
    assert.deepEqual(topics, ['Redis keeps no append-only file', 'redis is durable again']);
  });

  it('is RedisUnavailable without the required replicas, and if Redis cannot confirm them', async () => {
    for (const args of [[], ['--appendonly', 'no']]) {
      const { db } = await open(await start(args), { ackReplicas: 1 });
      const { answer, safe } = write(db);
      assert.equal(await answer, 'OK');
      await assert.rejects(safe, RedisUnavailable);
    }
  });

  for (const fsync of ['always', 'everysec']) {
    it(`is safe once the replica has it, which takes far less than a second, and not without the replica (${fsync})`, async () => {
      const args = ['--appendfsync', fsync, '--repl-diskless-sync-delay', '0'];
      const primary = await start(args);
      const replica = await start([...args, '--replicaof', '127.0.0.1', String(primary.port)]);
      const { db } = await open(primary, { ackReplicas: 1 }, patient);
      const { db: hasty } = await open(primary, { ackReplicas: 1 });
      await linked(db);
      await logWritten(db);
      const from = performance.now();
      for (let i = 0; i < 20; i++) await write(db, `written-${i}`).safe;
      assert.ok(performance.now() - from < 10_000, 'a replica that is asked once reports after a second');
      await replica.stop();
      await assert.rejects(write(hasty).safe, RedisUnavailable);
    });
  }

  const unconfirmed: [what: string, meanwhile: (db: Db) => Promise<unknown>, after?: boolean][] = [
    [
      'before an earlier write of another connection that its answer may rely on',
      (db) => db.redis.set('earlier', 1),
    ],
    [
      'by another connection than its own, which may lead to another server',
      async (db) => {
        await db.redis.call('CLIENT', 'KILL', 'TYPE', 'normal');
        await db.redis.config('SET', 'appendfsync', 'everysec');
      },
      true,
    ],
    [
      'by a primary that became a replica meanwhile',
      async (db) => db.redis.call('REPLICAOF', '127.0.0.1', (await start([])).port),
      true,
    ],
  ];
  for (const [what, meanwhile, isAfter = false] of unconfirmed) {
    it(`is not confirmed ${what}`, async () => {
      const { db, said } = await open(await start(everySecond));
      await until('one is confirmed', () => succeeds(write(db).safe));
      await db.redis.config('SET', 'appendfsync', 'no');
      if (!isAfter) await meanwhile(db);
      const { answer, safe } = isAfter ? write(db) : db.durably((own) => own.redis.get('earlier'));
      await answer;
      if (isAfter) await meanwhile(db);
      await assert.rejects(safe, RedisUnavailable);
      if (isAfter) assert.doesNotMatch(said.join(), /does not confirm in time/);
    });
  }

  it('may be several commands, and one that Redis refuses needs no confirmation', async () => {
    const { db } = await open(await start(everySecond), {}, patient);
    const { safe } = db.durably(async ({ redis }) => {
      await redis.call('EVALSHA', 'f'.repeat(40), 0).catch(() => undefined);
      return await Promise.all([redis.set('a', 1), redis.get('a')]);
    });
    assert.deepEqual(await safe, ['OK', '1']);
    await assert.rejects(db.durably(({ redis }) => redis.lpush('a', 1)).safe, /WRONGTYPE/);
  });

  it('is RedisUnavailable at once while Redis is unavailable, and safe again when it is back', async () => {
    const scene = await open(await start([]));
    const { redis } = scene.db;
    const { server } = scene;
    await write(scene.db).safe;
    const isLost = new Promise((resolve) => redis.once('close', resolve));
    process.kill(server.pid, 'SIGKILL');
    await server.child.exited;
    await isLost;
    await assert.rejects(write(scene.db).safe, RedisUnavailable);
    const isBack = new Promise((resolve) => redis.once('ready', resolve));
    await start([], server.port);
    await isBack;
    await write(scene.db).safe;
  });

  it('has lines that are opened more and more slowly while the server refuses them', async () => {
    const { db } = await open(await start(everySecond));
    await db.redis.config('SET', 'maxclients', 1);
    const from = performance.now();
    await assert.rejects(write(db).safe, RedisUnavailable);
    const refused = async () => /rejected_connections:(\d+)/.exec(await db.redis.info('stats'))?.[1];
    await until('each was refused ten times', async () => Number(await refused()) >= 20);
    assert.ok(performance.now() - from > 2000, 'tried ten times a second');
    await db.redis.config('SET', 'maxclients', 1000);
    await until('it is safe again', () => succeeds(write(db).safe));
  });
});

/** Resolves once a replica is there and has all that was written. */
async function linked({ redis }: Db): Promise<void> {
  for (let i = 0; i < 100; i++) {
    if (/slave0:.*state=online/.test(await redis.info('replication'))) return;
    await redis.call('WAIT', 1, 100);
  }
  assert.fail('no replica came');
}

/** Resolves once a log that was turned on holds the data: until then no write is confirmed. */
async function logWritten({ redis }: Db): Promise<void> {
  const isWritten = async () => /aof_rewrite_in_progress:0/.test(await redis.info('persistence'));
  await until('the log is written', isWritten);
}
