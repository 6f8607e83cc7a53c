import { Redis } from 'ioredis';

/** Calls a Redis of this machine over a new connection. @throws if it does not answer within 2 s */
export async function withRedis<T>(port: number, call: (redis: Redis) => Promise<T>): Promise<T> {
  const redis = new Redis({
    ...{ host: '127.0.0.1', port, lazyConnect: true, maxRetriesPerRequest: 0 },
    ...{ connectTimeout: 2000, commandTimeout: 2000, retryStrategy: () => null },
  });
  redis.on('error', () => undefined);
  try {
    await redis.connect();
    return await call(redis);
  } finally {
    redis.disconnect();
  }
}

/** Returns the fields of a section of `INFO`. */
export async function redisInfo(redis: Redis, section: string): Promise<Record<string, string>> {
  const lines = (await redis.info(section)).split('\r\n').filter((line) => line.includes(':'));
  return Object.fromEntries(
    lines.map((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 1)]),
  );
}

/** Checks that a replica follows its primary. */
export async function isFollowing(port: number): Promise<boolean> {
  const link = await withRedis(port, (redis) => redisInfo(redis, 'replication')).catch(() => undefined);
  return link?.master_link_status === 'up';
}
