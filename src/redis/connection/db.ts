/**
 * The connection to Redis, shared by every store function.
 *
 * No command is queued while Redis is unavailable, and none is repeated automatically: a command
 * either answers within its time or fails, and its caller knows that it may have run.
 */
import { Redis } from 'ioredis';
import type { Logger } from '../../log.js';
import { type RedisAddress, readRedisAddress } from '../../redisAddress.js';
import { openCluster } from './cluster.js';
import { coalesceWrites } from './coalesceWrites.js';
import { type ConnectionSettings, connectionSettings, retryStrategy } from './connectionSettings.js';
import { clientKeys, globalKeys } from './keys.js';
import { type Nodes, singleNode } from './nodes.js';
import { type CommandObserver, observeCommands } from './observeCommands.js';

export interface Db {
  /** Takes every command, and in a cluster sends it to the node of its key. For commands about one server use `nodes`. */
  redis: Redis;
  nodes: Nodes;
  prefix: string;
  global: ReturnType<typeof globalKeys>;
  client(clientToken: string): ReturnType<typeof clientKeys>;
  /** After how long without an event an asset's known segments are forgotten, s; 0: never. */
  keepSegmentsSeconds: number;
  /** Added to Redis' own clock by every script, ms: 0, except where a test skips time. */
  clockOffsetMs(): number;
}

export interface DbOptions {
  /** redisAddress.ts */
  url: string;
  prefix: string;
  log: Logger;
  commandTimeoutMs?: number;
  /** 0 by default. */
  keepSegmentsSeconds?: number;
  clockOffsetMs?: () => number;
  observe?: CommandObserver;
}

/** Redis did not answer: the command may or may not have run. */
export class RedisUnavailable extends Error {
  override name = 'RedisUnavailable';
}

/** @throws RangeError if the URL is not valid */
export function openDb(options: DbOptions): Db {
  const { redis, nodes } = open(
    readRedisAddress(options.url),
    connectionSettings(options.commandTimeoutMs ?? 1000),
    options.log,
  );
  if (options.observe !== undefined) observeCommands(redis, options.observe);
  return {
    redis,
    nodes,
    prefix: options.prefix,
    global: globalKeys(options.prefix),
    client: (clientToken) => clientKeys(options.prefix, clientToken),
    keepSegmentsSeconds: options.keepSegmentsSeconds ?? 0,
    clockOffsetMs: options.clockOffsetMs ?? (() => 0),
  };
}

function open(address: RedisAddress, settings: ConnectionSettings, log: Logger): Pick<Db, 'redis' | 'nodes'> {
  if (address.kind === 'cluster') return openCluster(address, settings, log);
  const redis = openSingle(address, settings);
  redis.on('connect', () => coalesceWrites(redis.stream));
  let told = false;
  redis.on('error', (err: Error) => {
    if (!told) log.warn({ reason: err.message }, 'redis is away');
    told = true;
  });
  redis.on('ready', () => {
    if (told) log.info('redis is back');
    told = false;
  });
  return { redis, nodes: singleNode(redis) };
}

function openSingle(
  address: RedisAddress & { kind: 'single' | 'sentinel' },
  settings: ConnectionSettings,
): Redis {
  const options = {
    ...settings,
    retryStrategy,
    // A demoted primary keeps its connections: a new connection leads to the new primary.
    reconnectOnError: (err: Error) => err.message.startsWith('READONLY'),
  };
  if (address.kind === 'single') return new Redis(address.url, options);
  const { sentinels, sentinel, name, db, tls, username, password } = address;
  return new Redis({
    ...options,
    sentinels,
    name,
    db,
    username,
    password,
    sentinelUsername: sentinel.username,
    sentinelPassword: sentinel.password,
    ...(tls && { tls: {}, sentinelTLS: {}, enableTLSForSentinelMode: true }),
    sentinelRetryStrategy: retryStrategy,
    sentinelCommandTimeout: 1000,
    // Sentinels announce a new primary, also if the old one is silent and keeps its connections.
    failoverDetector: true,
  });
}

/** Returns the time by which records are written, ms: this machine's clock, with the offset of the scripts. */
export const nowOf = (db: Db): number => Date.now() + db.clockOffsetMs();

/** Closes the connection for good. Owners of a second connection close it on this one's `end`. */
export function closeDb({ redis }: Db): void {
  // If it is closed between two tries, ioredis stops without an event.
  const between = redis.status === 'reconnecting';
  redis.disconnect();
  if (between) redis.emit('end');
}

/** Waits until every server answers. @throws after `timeoutMs` */
export async function waitForRedis(db: Db, timeoutMs: number): Promise<void> {
  const end = performance.now() + timeoutMs;
  for (;;) {
    try {
      const servers = db.nodes.primaries();
      await Promise.all(servers.map((server) => server.ping()));
      if (db.redis.status === 'ready') return;
      throw new Error('the nodes of the cluster are not known yet');
    } catch (err) {
      if (performance.now() > end) throw new RedisUnavailable('redis did not answer', { cause: err });
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

/** True for Redis' refusal of a write because it has no memory left. */
export function isOutOfMemory(err: unknown): boolean {
  return err instanceof Error && err.message.startsWith('OOM ');
}

const unavailableWords = new RegExp(
  [
    "Connection is closed|Stream isn't writeable|Command timed out|max retries per request",
    'ECONNREFUSED|ECONNRESET|EPIPE|ETIMEDOUT',
    'LOADING|READONLY|MASTERDOWN|CLUSTERDOWN|NOREPLICAS|^BUSY ',
    // Of a cluster: one node or all are unavailable, or a slot is being moved.
    "Cluster isn't ready|cluster is down|None of startup nodes|Failed to refresh slots cache",
    '^(MOVED|ASK|TRYAGAIN) |Too many Cluster redirections|Cluster is ended',
    // No memory left; no disk left.
    '^OOM |MISCONF',
  ].join('|'),
);
