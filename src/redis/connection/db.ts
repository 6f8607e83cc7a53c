/**
 * The connection to Redis, shared by every store function.
 *
 * No command is queued while Redis is unavailable, and none is repeated automatically: a command
 * either answers within its time or fails, and its caller knows that it may have run.
 */
import type { Redis } from 'ioredis';
import { readRedisAddress } from '../../addresses.js';
import type { Durability } from '../../config.js';
import type { Logger } from '../../log.js';
import { durableWrites, type Written } from './durable.js';
import { clientKeys, globalKeys } from './keys.js';
import { type Nodes, openNodes } from './nodes.js';
import { isNotLoaded, type RedisErrorClass, RedisUnavailable, redisErrorClass } from './unavailable.js';

export interface Db {
  /** Takes every command, and in a cluster sends it to the node of its key. For commands about one server use `nodes`. */
  redis: Redis;
  nodes: Nodes;
  prefix: string;
  global: ReturnType<typeof globalKeys>;
  client(clientToken: string): ReturnType<typeof clientKeys>;
  /** After how long without an event an asset's known segments are forgotten, s; 0: never. */
  keepSegmentsSeconds: number;
  /** `maxInFlight`: attempts in flight of a client without a bound of its own. `drainPerSecond`: of every client after an outage. */
  bounds: { maxInFlight: number; drainPerSecond: number };
  /** Added to Redis' own clock by every script, ms: 0, except where a test skips time. */
  clockOffsetMs(): number;
  /**
   * Runs a write whose answer promises something. `write` gets a connection of its own, which is this one otherwise; it may
   * run several commands, but no MULTI.
   */
  durably<T>(write: (db: Db) => Promise<T>): Written<T>;
}

/** Called for every command of a connection: its duration, ms, and the reason if it failed. */
export type CommandObserver = (milliseconds: number, error?: RedisErrorClass) => void;

interface DbOptions extends Pick<Db, 'bounds'>, Partial<Pick<Db, 'keepSegmentsSeconds' | 'clockOffsetMs'>> {
  /** addresses.ts */
  url: string;
  prefix: string;
  log: Logger;
  commandTimeoutMs?: number;
  observe?: CommandObserver;
  /** By default this server's disk, and no replica. */
  durability?: Durability;
}

/** @throws RangeError if the URL is not valid */
export function openDb(options: DbOptions): Db {
  const { prefix, bounds, log, commandTimeoutMs = 1000, observe = () => {} } = options;
  const { keepSegmentsSeconds = 0, clockOffsetMs = () => 0 } = options;
  const { redis, nodes } = openNodes(readRedisAddress(options.url), commandTimeoutMs, log);
  const global = globalKeys(prefix);
  const writeDurably = durableWrites(redis, {
    nodes,
    log,
    mark: global.diskMark,
    withinMs: commandTimeoutMs + confirmationMs,
    ...(options.durability ?? { trusted: false, ackReplicas: 0 }),
  });
  observeCommands(redis, observe);
  const db: Db = {
    redis,
    nodes,
    prefix,
    global,
    bounds,
    keepSegmentsSeconds,
    clockOffsetMs,
    client: (clientToken) => clientKeys(prefix, clientToken),
    durably: (write) =>
      writeDurably((own) => {
        if (own !== redis) observeCommands(own, observe);
        return write({ ...db, redis: own });
      }),
  };
  return db;
}

/** Times each command from the moment it is sent. */
function observeCommands(redis: Redis, observe: CommandObserver): void {
  const send = redis.sendCommand.bind(redis);
  redis.sendCommand = (command, ...rest) => {
    const sentAt = performance.now();
    const answer = send(command, ...rest) as Promise<unknown>;
    answer.then(
      () => observe(performance.now() - sentAt),
      // The server does not have the scripts yet: they are loaded.
      (err) =>
        observe(performance.now() - sentAt, isNotLoaded(err) ? undefined : redisErrorClass(err.message)),
    );
    return answer;
  };
}

/** A command and its confirmation may take this much longer than a command alone. */
const confirmationMs = 500;

/** Returns the time by which records are written, ms: this machine's clock, with the offset of the scripts. */
export const nowOf = (db: Db): number => Date.now() + db.clockOffsetMs();

/** Returns the pairs of an answer in which names and values alternate. */
export function toPairs(flat: readonly string[]): [name: string, value: string][] {
  return flat.flatMap((name, i) => (i % 2 === 0 ? [[name, flat[i + 1] as string]] : []));
}

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

/** The layout of the keys that this release reads and writes. */
const layoutVersion = 1;

/** Marks an empty store with this layout. @throws with a message for the operator if the store has another one */
export async function checkLayout(db: Db): Promise<void> {
  const { layout } = db.global;
  // A full Redis refuses the write.
  if ((await db.redis.exists(layout)) === 0) await db.redis.setnx(layout, layoutVersion);
  const found = Number(await db.redis.get(layout));
  if (found === layoutVersion) return;
  throw new Error(
    `the store has layout ${found}; this release knows layout ${layoutVersion}. Use the release that wrote it.`,
  );
}

/**
 * Checks that every server can let single fields of a hash expire, if that is needed.
 * @throws with a message for the operator
 */
export async function checkExpiry(db: Db): Promise<void> {
  if (db.keepSegmentsSeconds === 0) return;
  for (const node of db.nodes.primaries()) {
    // Redis and Valkey know HEXPIRE since they can let single fields expire: since Redis 7.4 and Valkey 9.0.
    const [known] = (await node.command('INFO', 'HEXPIRE')) as unknown[];
    if (known) continue;
    throw new Error(
      'SEGMENT_RETENTION_DAYS needs HEXPIRE, which this server lacks: use Redis 7.4 or Valkey 9.0, or newer',
    );
  }
}
