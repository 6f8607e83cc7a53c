import { Redis } from 'ioredis';
import { readInfo } from '../../src/operator/doctor/readServer.js';

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

/** Checks that a replica follows its primary. */
export async function isFollowing(port: number): Promise<boolean> {
  const link = await withRedis(port, (redis) => readInfo(redis, 'replication')).catch(() => undefined);
  return link?.master_link_status === 'up';
}
