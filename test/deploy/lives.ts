/** The lives that recordLife.ts records: what is done to the service, at which second. Those of longer faults are in furtherLives.ts. */
import { spawnSync } from 'node:child_process';
import { setTimeout as pause } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { startRedis } from '../../local/redis.js';
import { resumeEndpoint } from '../../src/redis/records/endpoint.js';
import { furtherLives } from './furtherLives.js';
import { apart, during, type Life, restarted } from './life.js';
import type { Stage } from './recordLife.js';

const closed = (which: readonly number[]) => (stage: Stage) =>
  Promise.all(which.map((i) => stage.closeReceiver(i)));
const open = (which: readonly number[]) => (stage: Stage) =>
  Promise.all(which.map((i) => stage.openReceiver(i)));
/** As an operator does who was told that they work again. */
const resumed = (which: readonly number[]) => async (stage: Stage) => {
  await open(which)(stage);
  for (const i of which) await resumeEndpoint(stage.publisher.db, stage.clients[i] ?? '');
};
const answering = (status: number) => (stage: Stage) => {
  for (const receiver of stage.receivers.slice(0, 1)) receiver.answer = () => status;
};

async function failOver(stage: Stage, seconds: number): Promise<void> {
  const other = await startRedis({
    dir: `${stage.dir}/redis-2`,
    args: ['--replicaof', '127.0.0.1', new URL(stage.redisUrl).port],
  });
  const direct = new Redis(other.url);
  while (!/master_link_status:up/.test(await direct.info('replication'))) await pause(200);
  await direct.replicaof('NO', 'ONE');
  await stage.direct.replicaof('127.0.0.1', String(other.port));
  await pause(seconds * 1000);
  stage.proxy.lead(other.url);
  direct.disconnect();
}

/** The whole process has this clock, by the package faketime: Temporal's client reads it in Rust. */
const behind = (seconds: number) => ({
  LD_PRELOAD: spawnSync('faketime', ['-f', '+0', 'printenv', 'LD_PRELOAD'], { encoding: 'utf8' })
    .stdout.trim()
    .replace('libfaketime.', 'libfaketimeMT.'),
  FAKETIME: `-${seconds}s`,
  FAKETIME_DONT_FAKE_MONOTONIC: '1',
});

export const lives: Record<string, Life> = {
  quiet: { seconds: 480, act: async () => undefined },
  'two receivers of three, 4 minutes': during(300, closed([0, 1]), resumed([0, 1])),
  'all receivers, 9 minutes': during(600, closed([0, 1, 2]), resumed([0, 1, 2]), 90),
  'one large receiver, 10 minutes': during(660, closed([0]), resumed([0])),
  'an endpoint is suspended': during(240, answering(410), async (stage) => {
    answering(200)(stage);
    await resumeEndpoint(stage.publisher.db, stage.clients[0] ?? '');
  }),
  'Redis away, 60 s': during(
    120,
    (stage) => stage.killRedis(),
    (stage) => stage.startRedis(),
    300,
  ),
  'Redis away, 4 minutes': during(
    300,
    (stage) => stage.killRedis(),
    (stage) => stage.startRedis(),
    240,
  ),
  'Redis read-only, 8 minutes': during(
    540,
    (stage) => stage.direct.replicaof('127.0.0.1', '1'),
    (stage) => stage.direct.replicaof('NO', 'ONE'),
    240,
  ),
  'failover of Redis': { seconds: 360, act: (stage, at) => at(60).then(() => failOver(stage, 20)) },
  'Redis full, 3 minutes': during(
    240,
    (stage) => stage.direct.config('SET', 'maxmemory', '1mb'),
    (stage) => stage.direct.config('SET', 'maxmemory', '0'),
    240,
  ),
  'Redis slow, 7 minutes': during(
    480,
    ({ proxy }) => proxy.slow({ latencyMs: 400 }),
    ({ proxy }) => proxy.slow({}),
    240,
  ),
  'a drain of our own': {
    seconds: 540,
    async act(stage, at) {
      stage.eventsPerSecond = 8;
      await at(30);
      await stage.closeReceiver(0);
      await at(150);
      await resumed([0])(stage);
    },
  },
  'Temporal away, 60 s': during(
    120,
    (stage) => stage.killTemporal(),
    (stage) => stage.startTemporal(),
    300,
  ),
  'Temporal away, 5 minutes': during(
    360,
    (stage) => stage.killTemporal(),
    (stage) => stage.startTemporal(),
    300,
  ),
  'Temporal away, roles apart, 7 minutes': {
    ...during(
      480,
      (stage) => stage.killTemporal(),
      (stage) => stage.startTemporal(),
      240,
    ),
    roles: apart,
  },
  'a right that no event needs, 4 minutes': during(
    300,
    (stage) => stage.direct.call('ACL', 'SETUSER', 'default', '-publish'),
    (stage) => stage.direct.call('ACL', 'SETUSER', 'default', '+publish'),
    90,
  ),
  'a signing secret that is gone, 4 minutes': during(
    300,
    async (stage) => {
      await stage.direct.del(stage.keysOf(stage.clients[0] ?? '').signingSecrets);
      // A process remembers the secrets that it has used.
      await restarted(stage, 'a');
    },
    ({ publisher, clients: [client_token = ''] }) =>
      publisher.call('POST', 'push_notifications/signing_secret', { client_token }),
    240,
  ),
  'a crash loop': {
    seconds: 480,
    async act(stage, at) {
      for (let i = 0; i < 5; i++) {
        await at(60 + 12 * i);
        await stage.processOf('b').stop('SIGKILL');
        await stage.start('b');
      }
    },
  },
  'a process ends for good': during(
    360,
    (stage) => stage.processOf('b').stop('SIGKILL'),
    (stage) => stage.start('b'),
    120,
  ),
  'the worker ends': {
    ...during(
      360,
      (stage) => stage.processOf('b').stop(),
      (stage) => stage.start('b'),
      120,
    ),
    roles: apart,
  },
  'a client with broken keys': during(
    300,
    async ({ direct, keysOf, clients: [client = ''] }) => {
      await direct.rename(keysOf(client).registration, 'kept');
      await direct.lpush(keysOf(client).registration, 'x');
    },
    ({ direct, keysOf, clients: [client = ''] }) => direct.rename('kept', keysOf(client).registration),
    360,
  ),
  'a wrong token, 3 calls a second': {
    seconds: 420,
    async act(stage, at) {
      await at(60);
      for (let i = 0; i < 540; i++) {
        void fetch(`${stage.apiUrl}/clients`, { headers: { authorization: 'Bearer wrong' } }).catch(
          () => undefined,
        );
        await at(60 + i / 3);
      }
    },
  },
  'a clock behind': during(
    300,
    (stage) => restarted(stage, 'b', behind(90)),
    (stage) => restarted(stage, 'b'),
  ),
  'all data lost': {
    seconds: 240,
    async act(stage, at) {
      await at(60);
      await stage.direct.flushall();
    },
  },
  ...furtherLives,
};
