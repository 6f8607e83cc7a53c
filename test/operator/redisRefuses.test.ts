import assert from 'node:assert/strict';
import { mkdir, rmdir } from 'node:fs/promises';
import { join } from 'node:path';
import { freePort } from '../../local/ports.js';
import { startOwnRedis } from '../ownRedis.js';
import { until } from '../receiver.js';
import { type Harness, startHarness } from '../service.js';
import { type Cli, openCli } from './cli.js';

const snapshot = 'snapshot.rdb';

describe('operator: status says that it is us while Redis refuses writes, because', () => {
  let server: Awaited<ReturnType<typeof startOwnRedis>>;
  let h: Harness;
  let cli: Cli;

  before(async () => {
    server = await startOwnRedis(['--dbfilename', snapshot]);
    const env = { REDIS_URL: server.url };
    h = await startHarness(env);
    await h.startWorker();
    cli = await openCli({ ...env, KEY_PREFIX: h.db.prefix, TASK_QUEUE: h.taskQueue });
  });
  after(async () => {
    await h.close();
    await server.stop();
  });

  const redis = () => h.db.redis;
  const saved = (status: 'ok' | 'err') =>
    until(`the last snapshot: ${status}`, async () => {
      const info = await redis().info('persistence');
      return info.includes('rdb_bgsave_in_progress:0') && info.includes(`rdb_last_bgsave_status:${status}`);
    });

  const cases: Record<string, { because: RegExp; begin: () => Promise<() => Promise<unknown>> }> = {
    'it is full': {
      because: /^Redis is full \(maxmemory\)\. Events, tokens and registrations are answered 503\.$/,
      async begin() {
        const usedBytes = async () => Number(/used_memory:(\d+)/.exec(await redis().info('memory'))?.[1]);
        await redis().config('SET', 'maxmemory', (await usedBytes()) + 10_000_000);
        const filler = `${h.db.prefix}filler`;
        const fill = async () => {
          for (;;) await redis().rpush(filler, 'x'.repeat(100_000));
        };
        await assert.rejects(fill(), /^ReplyError: OOM/);
        // The memory of its connections varies.
        await redis().config('SET', 'maxmemory', (await usedBytes()) - 5_000_000);
        return async () => {
          await redis().del(filler);
          await redis().config('SET', 'maxmemory', 0);
        };
      },
    },
    'its disk failed': {
      because: /^Redis refuses writes because its last write to disk failed\./,
      async begin() {
        // A snapshot cannot replace a folder.
        await mkdir(join(server.dir, snapshot));
        await redis().config('SET', 'save', '3600 1');
        await redis().bgsave();
        await saved('err');
        return async () => {
          await rmdir(join(server.dir, snapshot));
          await redis().bgsave();
          await saved('ok');
        };
      },
    },
    'too few replicas are connected': {
      because: /^Redis refuses writes: too few replicas are connected \(min-replicas-to-write\)\./,
      async begin() {
        await redis().config('SET', 'min-replicas-to-write', 1);
        return () => redis().config('SET', 'min-replicas-to-write', 0);
      },
    },
    'it is a replica': {
      because: /^Redis refuses writes: it is a replica, and REDIS_URL must lead to the primary\./,
      async begin() {
        await redis().replicaof('127.0.0.1', await freePort());
        return () =>
          until('it is the primary', () =>
            redis()
              .replicaof('NO', 'ONE')
              .catch(() => false),
          );
      },
    },
  };

  for (const [what, { because, begin }] of Object.entries(cases)) {
    it(`${what}, and not any more once it accepts them`, async () => {
      assert.deepEqual(await verdictAnd('redis'), ['fine', 'ok']);
      const end = await begin();
      try {
        const status = await cli.json('status');
        assert.equal(status.verdict, 'us', JSON.stringify(status));
        assert.match(status.because, because);
        assert.match(status.redis, because);
        assert.match(
          (await cli.run(['status'])).stdout,
          /^It is us\. Redis [\s\S]*^redis +answers in .*, refuses writes$/m,
        );
      } finally {
        await end();
      }
      assert.deepEqual(await verdictAnd('redis'), ['fine', 'ok']);
    });
  }

  async function verdictAnd(name: string): Promise<unknown[]> {
    const status = await cli.json('status');
    return [status.verdict, status[name]];
  }
});
