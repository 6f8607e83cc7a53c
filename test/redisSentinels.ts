/** A primary with two replicas, and three Sentinels that watch it. */
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { type Child, startChild } from '../local/child.js';
import { freePort } from '../local/ports.js';
import { type RedisServer, startRedis } from '../local/redis.js';
import { until } from './receiver.js';

export const name = 'the-primary';
const downAfterMs = 2000;

export async function startSentinels(dir: string, binary: string) {
  const start = (n: number, args: readonly string[] = []): Promise<RedisServer> =>
    startRedis({ dir: join(dir, `redis-${n}`), binary, args: ['--repl-diskless-sync-delay', '0', ...args] });
  const primary = await start(0);
  const replicaOf = ['--replicaof', '127.0.0.1', String(primary.port)];
  const redisServers = [primary, await start(1, replicaOf), await start(2, replicaOf)];
  const ports = [await freePort(), await freePort(), await freePort()];
  const sentinels = await Promise.all(ports.map((port) => startSentinel(dir, binary, port, primary.port)));
  const asked = ports.map((port) => new Redis(port, { lazyConnect: false, enableReadyCheck: false }));
  for (const sentinel of asked) sentinel.on('error', () => undefined);
  await untilAllKnown(asked);
  return {
    url: `redis+sentinel://${ports.map((port) => `127.0.0.1:${port}`).join()}/${name}`,
    async killPrimary(): Promise<void> {
      const [first] = asked as [Redis];
      const [, port] = (await first.call('SENTINEL', 'GET-MASTER-ADDR-BY-NAME', name)) as string[];
      const server = redisServers.find((one) => one.port === Number(port)) as RedisServer;
      process.kill(server.pid, 'SIGKILL');
      await server.child.exited;
    },
    async stop(): Promise<void> {
      for (const sentinel of asked) sentinel.disconnect();
      await Promise.all(sentinels.map((sentinel) => sentinel.stop()));
      await Promise.all(redisServers.map((server) => server.stop()));
    },
  };
}

export async function startSentinel(
  dir: string,
  binary: string,
  port: number,
  primary: number,
  host = '127.0.0.1',
): Promise<Child> {
  const own = join(dir, `sentinel-${port}`);
  await mkdir(own, { recursive: true });
  const config = join(own, 'sentinel.conf');
  await writeFile(
    config,
    [
      `port ${port}`,
      'bind 127.0.0.1',
      `dir ${own}`,
      'sentinel resolve-hostnames yes',
      'sentinel announce-hostnames yes',
      `sentinel monitor ${name} ${host} ${primary} 2`,
      `sentinel down-after-milliseconds ${name} ${downAfterMs}`,
      `sentinel failover-timeout ${name} 10000`,
      '',
    ].join('\n'),
  );
  return await startChild({
    name: 'sentinel',
    command: binary,
    args: [config, '--sentinel'],
    logFile: join(own, 'sentinel.log'),
  });
}

/** Each Sentinel has found the two others and the two replicas. */
async function untilAllKnown(sentinels: readonly Redis[]): Promise<void> {
  for (const sentinel of sentinels) {
    await until('the Sentinels know each other', async () => {
      const flat = ((await sentinel.call('SENTINEL', 'MASTER', name).catch(() => [])) as string[]) ?? [];
      const value = (field: string): string | undefined => flat[flat.indexOf(field) + 1];
      return value('num-other-sentinels') === '2' && value('num-slaves') === '2';
    });
  }
}
