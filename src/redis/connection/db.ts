/**
 * The connection to Redis, shared by every store function.
 *
 * No command is queued while Redis is unavailable, and none is repeated automatically: a command
 * either answers within its time or fails, and its caller knows that it may have run.
 */
import { Redis } from 'ioredis';
import type { Logger } from '../../log.js';
import { coalesceWrites } from './coalesceWrites.js';
import { clientKeys, globalKeys } from './keys.js';
import { type CommandObserver, observeCommands } from './observeCommands.js';

export interface Db {
  redis: Redis;
  prefix: string;
  global: ReturnType<typeof globalKeys>;
  client(clientToken: string): ReturnType<typeof clientKeys>;
  /** Added to Redis' own clock by every script, ms: 0, except where a test skips time. */
  clockOffsetMs(): number;
}

export interface DbOptions {
  url: string;
  prefix: string;
  log: Logger;
  commandTimeoutMs?: number;
  clockOffsetMs?: () => number;
  observe?: CommandObserver;
}

/** Redis did not answer: the command may or may not have run. */
export class RedisUnavailable extends Error {
  override name = 'RedisUnavailable';
}

/** A connection without an answer for this much longer than a command may take is dead, and is replaced. */
const deadAfterMs = 500;

export function openDb(options: DbOptions): Db {
  const commandTimeoutMs = options.commandTimeoutMs ?? 1000;
  const redis = new Redis(options.url, {
    enableOfflineQueue: false,
    maxRetriesPerRequest: 0,
    autoResendUnfulfilledCommands: false,
    connectTimeout: 1000,
    commandTimeout: commandTimeoutMs,
    socketTimeout: commandTimeoutMs + deadAfterMs,
    retryStrategy: (times) => Math.min(50 * times, 500),
    enableAutoPipelining: false,
    // A demoted primary keeps its connections: a new connection leads to the new primary.
    reconnectOnError: (err) => err.message.startsWith('READONLY'),
  });
  if (options.observe !== undefined) observeCommands(redis, options.observe);
  redis.on('connect', () => coalesceWrites(redis.stream));
  let told = false;
  redis.on('error', (err: Error) => {
    if (!told) options.log.warn({ reason: err.message }, 'redis is away');
    told = true;
  });
  redis.on('ready', () => {
    if (told) options.log.info('redis is back');
    told = false;
  });
  return dbOf(redis, options.prefix, options.clockOffsetMs);
}

export function dbOf(redis: Redis, prefix: string, clockOffsetMs: () => number = () => 0): Db {
  return {
    redis,
    prefix,
    global: globalKeys(prefix),
    client: (clientToken) => clientKeys(prefix, clientToken),
    clockOffsetMs,
  };
}

/** Closes the connection for good. Owners of a second connection close it on this one's `end`. */
export function closeDb({ redis }: Db): void {
  // If it is closed between two tries, ioredis stops without an event.
  const between = redis.status === 'reconnecting';
  redis.disconnect();
  if (between) redis.emit('end');
}

/** Waits until the server answers. @throws after `timeoutMs` */
export async function waitForRedis(db: Db, timeoutMs: number): Promise<void> {
  const end = Date.now() + timeoutMs;
  for (;;) {
    try {
      await db.redis.ping();
      return;
    } catch (err) {
      if (Date.now() > end) throw new RedisUnavailable('redis did not answer', { cause: err });
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
}

/** True for an error that means "Redis is unavailable, full or did not answer", not for a script's own error. */
export function isRedisUnavailable(err: unknown): boolean {
  if (err instanceof RedisUnavailable) return true;
  if (!(err instanceof Error)) return false;
  return unavailableWords.test(err.message) || err.name === 'MaxRetriesPerRequestError';
}

const unavailableWords = new RegExp(
  [
    "Connection is closed|Stream isn't writeable|Command timed out|max retries per request",
    'ECONNREFUSED|ECONNRESET|EPIPE|ETIMEDOUT',
    'LOADING|READONLY|MASTERDOWN|CLUSTERDOWN|NOREPLICAS|^BUSY ',
    // No memory left; no disk left.
    'OOM command not allowed|MISCONF',
  ].join('|'),
);
