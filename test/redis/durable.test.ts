import assert from 'node:assert/strict';
import { EventEmitter } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Redis } from 'ioredis';
import { type RedisServer, startRedis } from '../../local/redis.js';
import { createLogger, type Logger } from '../../src/log.js';
import { type Db, openDb, RedisUnavailable, waitForRedis } from '../../src/redis/connection/db.js';
import {
  type Durability,
  type DurabilityOptions,
  openDurability,
} from '../../src/redis/connection/durable.js';
import { watchFsync } from '../../src/redis/connection/fsync.js';
import { until } from '../delivery/harness.js';
import { startProxy } from '../proxy.js';
import { servers } from '../servers.js';

interface Scene {
  server: RedisServer;
  db: Db;
  durability: Durability;
  /** What the operator was told. */
  said: string[];
  /** How often the server was asked this since it started. */
  asked(command: string): Promise<number>;
}

describe('durability', () => {
  let dir: string;
  const begun: { stop(): Promise<void> }[] = [];

  before(async () => {
    dir = await mkdtemp(join(tmpdir(), 'asset-update-durable-'));
  });
  afterEach(async () => {
    for (const one of begun.splice(0).reverse()) await one.stop();
  });
  after(() => rm(dir, { recursive: true, force: true }));

  async function start(args: string[]): Promise<RedisServer> {
    const server = await startRedis({
      dir: await mkdtemp(join(dir, 'redis-')),
      binary: servers().redisServerBinary,
      args,
    });
    begun.push(server);
    return server;
  }

  async function open(server: RedisServer, options: Partial<DurabilityOptions> = {}): Promise<Scene> {
    const db = openDb({ url: server.url, prefix: 'test-', log: createLogger('silent', 'test') });
    await waitForRedis(db, 5000);
    const said: string[] = [];
    const say = (line: string) => said.push(line);
    const log = { warn: say, info: say } as unknown as Logger;
    const durability = await openDurability(db, { trusted: false, ackReplicas: 0, log, ...options });
    begun.push({
      stop: async () => {
        durability.close();
        db.redis.disconnect();
      },
    });
    const asked = async (command: string) => {
      const stats = await db.redis.info('commandstats');
      return Number(stats.match(`cmdstat_${command}:calls=(\\d+)`)?.[1] ?? 0);
    };
    return { server, db, durability, said, asked };
  }

  const everySecond = ['--appendfsync', 'everysec'];
  const manyAtOnce = ({ durability }: Scene) =>
    Promise.all(Array.from({ length: 50 }, () => durability.reached('SITE')));

  it('comes with each answer of a Redis with appendfsync always, without asking', async () => {
    const scene = await open(await start([]));
    await manyAtOnce(scene);
    assert.equal(await scene.asked('waitaof'), 0);
    assert.deepEqual(scene.said, []);
  });

  it('is confirmed by one WAITAOF for all concurrent callers if Redis flushes every second', async () => {
    const scene = await open(await start(everySecond));
    const before = await scene.asked('waitaof');
    await scene.db.redis.set('written', 1);
    const first = manyAtOnce(scene);
    await new Promise(setImmediate);
    // That wait is under way: later callers may have written after it began, and share the next.
    const next = manyAtOnce(scene);
    await Promise.all([first, next]);
    assert.equal((await scene.asked('waitaof')) - before, 2);
    assert.deepEqual(scene.said, []);
  });

  it('is asked for if the log is not flushed while it is rewritten', async () => {
    const scene = await open(await start(['--no-appendfsync-on-rewrite', 'yes']));
    const before = await scene.asked('waitaof');
    await scene.durability.reached('SITE');
    assert.equal((await scene.asked('waitaof')) - before, 1);
  });

  it('follows an operator’s change of settings, at the next connection at the latest', async () => {
    const scene = await open(await start([]));
    const { redis } = scene.db;
    await redis.config('SET', 'appendfsync', 'everysec');
    redis.disconnect(true);
    await told(redis, 'ready');
    await scene.durability.reached('SITE');
    assert.equal(await scene.asked('waitaof'), 1);
  });

  it('is assumed if the store is trusted, without asking or warning', async () => {
    const scene = await open(await start(['--appendonly', 'no']), { trusted: true });
    await manyAtOnce(scene);
    assert.deepEqual([await scene.asked('waitaof'), await scene.asked('config|get'), scene.said], [0, 0, []]);
  });

  it('is impossible without an append-only file: the operator is warned once, and callers are answered', async () => {
    const scene = await open(await start(['--appendonly', 'no']));
    await manyAtOnce(scene);
    assert.equal(scene.said.length, 1);
    assert.match(scene.said.join(), /redis is not durable/);
  });

  for (const when of ['within 30 s', 'at the next connection']) {
    it(`is asked for again ${when} if Redis has an append-only file again, and the operator is told`, async () => {
      const scene = await open(await start(everySecond));
      const { redis } = scene.db;
      await redis.config('SET', 'appendonly', 'no');
      await manyAtOnce(scene);
      await redis.config('SET', 'appendonly', 'yes');
      await logWritten(scene.db);
      const before = await scene.asked('waitaof');
      await manyAtOnce(scene);
      assert.equal(await scene.asked('waitaof'), before, 'Redis is not asked each time');
      const now = performance.now;
      try {
        if (when === 'within 30 s') performance.now = () => now.call(performance) + 30_000;
        else {
          redis.disconnect(true);
          await told(redis, 'ready');
        }
        await scene.durability.reached('SITE');
      } finally {
        performance.now = now;
      }
      assert.equal(await scene.asked('waitaof'), before + 1);
      await manyAtOnce(scene);
      assert.ok((await scene.asked('waitaof')) > before + 1, 'each write is confirmed again');
      assert.deepEqual(
        scene.said.map((line) => line.split(':')[0]),
        ['redis is not durable', 'redis is durable again'],
      );
    });
  }

  it('is RedisUnavailable without the required replicas', async () => {
    const scene = await open(await start([]), { ackReplicas: 1 });
    await assert.rejects(scene.durability.reached('SITE'), RedisUnavailable);
    assert.deepEqual(scene.said, []);
  });

  it('is RedisUnavailable if replicas are required of a Redis that cannot confirm them', async () => {
    const scene = await open(await start(['--appendonly', 'no']), { ackReplicas: 1 });
    await assert.rejects(scene.durability.reached('SITE'), RedisUnavailable);
  });

  it('is reached once the replicas have the write, and not without them', async () => {
    const primary = await start([]);
    const replica = await start(['--replicaof', '127.0.0.1', String(primary.port)]);
    const { db, durability } = await open(primary, { ackReplicas: 1 });
    await linked(db);
    await durability.reached('SITE');
    await replica.stop();
    await assert.rejects(durability.reached('SITE'), RedisUnavailable);
  });

  it('is RedisUnavailable if the connection was lost meanwhile: another server may have confirmed the write', async () => {
    const server = await start(everySecond);
    const line = await startProxy(server.url);
    begun.push({ stop: () => line.close() });
    const { db, durability } = await open({ ...server, url: line.url });
    await durability.reached('SITE');
    const isLost = told(db.redis, 'close');
    line.hang();
    const reached = durability.reached('SITE');
    db.redis.stream.destroy();
    await isLost;
    const isBack = told(db.redis, 'ready');
    line.release();
    await assert.rejects(reached, /the connection to redis was lost/);
    await isBack;
    await durability.reached('SITE');
  });

  it('is RedisUnavailable within 3 s while Redis is unavailable, and confirmed again when it is back', async () => {
    const scene = await open(await start([]));
    const { redis } = scene.db;
    const { server } = scene;
    const isLost = told(redis, 'close');
    process.kill(server.pid, 'SIGKILL');
    await server.child.exited;
    await isLost;
    const from = performance.now();
    await assert.rejects(scene.durability.reached('SITE'), RedisUnavailable);
    assert.ok(performance.now() - from < 3000);
    const isBack = told(redis, 'ready');
    const again = await startRedis({ dir: join(dir, 'again'), port: server.port, binary: server.binary });
    begun.push(again);
    await isBack;
    await scene.durability.reached('SITE');
  });
});

/** Waits for the next such event, ignoring errors before it. */
function told(redis: Db['redis'], event: 'ready' | 'close'): Promise<void> {
  return new Promise((resolve) => redis.once(event, resolve));
}

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

describe('whether Redis flushes its log with each write', () => {
  const settings: Record<string, string> = {
    appendonly: 'yes',
    appendfsync: 'always',
    'no-appendfsync-on-rewrite': 'no',
  };

  /** Answers CONFIG GET as a server with these settings does, until a test has it fail. */
  function fakeRedis(given: Record<string, string>): { redis: Redis; fail(err: Error | undefined): void } {
    let failure: Error | undefined;
    const redis = Object.assign(new EventEmitter(), {
      config: async (_: string, pattern: string) => {
        if (failure) throw failure;
        return Object.entries(given)
          .filter(([name]) => name.startsWith(pattern.replace('*', '')))
          .flat();
      },
    });
    return {
      redis: redis as unknown as Redis,
      fail: (err) => {
        failure = err;
      },
    };
  }

  const turned = () => new Promise(setImmediate);

  it('is known only if all three settings say so', async () => {
    for (const [name, other] of Object.entries({
      appendonly: 'no',
      appendfsync: 'everysec',
      'no-appendfsync-on-rewrite': 'yes',
    })) {
      for (const [given, expected] of [
        [settings, true],
        [{ ...settings, [name]: other }, false],
      ] as const) {
        const watch = watchFsync(fakeRedis(given).redis);
        await watch.asked;
        assert.equal(watch.always(), expected, JSON.stringify(given));
        watch.close();
      }
    }
  });

  it('is not changed by one slow answer, but by a refusal', async () => {
    const { redis, fail } = fakeRedis(settings);
    const watch = watchFsync(redis);
    await watch.asked;
    for (const [message, expected] of [
      ['Command timed out', true],
      ["NOPERM this user has no permissions to run the 'config|get' command", false],
    ] as const) {
      fail(new Error(message));
      redis.emit('ready');
      await turned();
      assert.equal(watch.always(), expected, message);
    }
    fail(undefined);
    redis.emit('ready');
    await turned();
    assert.equal(watch.always(), true);
    watch.close();
  });

  it('is unknown between two connections, until the next one was asked', async () => {
    const { redis } = fakeRedis(settings);
    const watch = watchFsync(redis);
    await watch.asked;
    redis.emit('close');
    assert.equal(watch.always(), false);
    redis.emit('ready');
    await turned();
    assert.equal(watch.always(), true);
    watch.close();
  });
});
