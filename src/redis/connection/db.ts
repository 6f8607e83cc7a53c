/** The connection to Redis. A command answers within its time or fails, and its caller knows that it may have run (nodes.ts). */
import type { Command, Redis } from 'ioredis';
import { readRedisAddress } from '../../addresses.js';
import type { DeliverySettings, Durability } from '../../config.js';
import type { Logger } from '../../log.js';
import { durableWrites, type Written } from './durable.js';
import { StoreHealth } from './health.js';
import { clientKeys, globalKeys } from './keys.js';
import { type Nodes, type OwnCertificate, openNodes } from './nodes.js';
import { isLasting, isLoaded, isNotLoaded, type RedisReason, RedisUnavailable } from './unavailable.js';

export interface Db {
  /** Takes every command, and in a cluster sends it to the node of its key. For commands about one server use `nodes`. */
  redis: Redis;
  nodes: Nodes;
  health: StoreHealth;
  /** False: the store is trusted to be durable by itself. */
  confirms: boolean;
  prefix: string;
  global: ReturnType<typeof globalKeys>;
  client(clientToken: string): ReturnType<typeof clientKeys>;
  settings: DeliverySettings;
  /** By client, as Redis stores them (redis/records/secrets.ts): attempts of a known version need not read them again. */
  knownSecrets: Map<string, { version: string; fields: Record<string, string> }>;
  /** Added to Redis' own clock by every script, ms: 0, except where a test skips time. */
  clockOffsetMs(): number;
  /** This process' clock, ms, where a test has it differ from that of Redis. */
  callersNow?(): number;
  /**
   * Runs a write whose answer promises something. `write` gets a connection of its own, which is this one otherwise; it may
   * run several commands.
   */
  durably<T>(write: (db: Db) => Promise<T>): Written<T>;
}

/** Hears of the commands of the service: how long each took, ms, and why each that failed did. */
export type CommandObserver = { answered(milliseconds: number): void; refused(reason: RedisReason): void };

interface DbOptions extends Pick<Db, 'settings'>, Partial<Pick<Db, 'clockOffsetMs' | 'callersNow'>> {
  /** addresses.ts */
  url: string;
  /** For a Redis that demands one of its callers. */
  certificate?: OwnCertificate | undefined;
  prefix: string;
  log: Logger;
  commandTimeoutMs?: number;
  observe?: CommandObserver;
  /** By default this server's disk, and no replica. */
  durability?: Durability;
}

/** @throws RangeError if the URL is not valid */
export function openDb(options: DbOptions): Db {
  const { prefix, settings, log, commandTimeoutMs = 1000, observe, clockOffsetMs = () => 0 } = options;
  const health = new StoreHealth(log, observe?.refused);
  const address = readRedisAddress(options.url);
  const channel = clientKeys(prefix, 'need').updates;
  const { redis, nodes } = openNodes(address, commandTimeoutMs, health, channel, options.certificate);
  const global = globalKeys(prefix);
  const durability = options.durability ?? { trusted: false, ackReplicas: 0 };
  const writeDurably = durableWrites(redis, {
    nodes,
    health,
    mark: global.diskMark,
    withinMs: commandTimeoutMs + confirmationMs,
    ...durability,
  });
  observeCommands(redis, nodes, health, observe);
  const db: Db = {
    redis,
    nodes,
    health,
    confirms: !durability.trusted,
    prefix,
    global,
    settings,
    knownSecrets: new Map(),
    clockOffsetMs,
    ...(options.callersNow && { callersNow: options.callersNow }),
    client: (clientToken) => clientKeys(prefix, clientToken),
    durably: (write) =>
      writeDurably((own) => {
        if (own !== redis) observeCommands(own, nodes, health, observe);
        return write({ ...db, redis: own });
      }),
  };
  return db;
}

/** Times each command from the moment it is sent, and notes what the servers refuse. */
function observeCommands(redis: Redis, nodes: Nodes, health: StoreHealth, observe?: CommandObserver): void {
  const send = redis.sendCommand.bind(redis);
  redis.sendCommand = (command, ...rest) => {
    const sentAt = performance.now();
    const answer = send(command, ...rest) as Promise<unknown>;
    answer.then(
      () => observe?.answered(performance.now() - sentAt),
      (err) => {
        observe?.answered(performance.now() - sentAt);
        // A server that does not have the scripts yet gets them, perhaps from several callers.
        if (isNotLoaded(err) || isLoaded(err)) return;
        // The connection tells why its user is refused. A password that the server asked nobody for stops nothing.
        if ((command as Command).name === 'auth') return;
        const owner = nodes.ownerOf(String((command as Command).getKeys()[0] ?? ''));
        health.note(err, owner && nodes.nameOf(owner));
      },
    );
    return answer;
  };
}

/** A command and its confirmation may take this much longer than a command alone. */
const confirmationMs = 500;

/** Returns the time by which records are written, ms: this machine's clock, with the offset of the scripts. */
export const nowOf = (db: Db): number => db.callersNow?.() ?? Date.now() + db.clockOffsetMs();

/** Returns the time by which the scripts of this key's server end notifications, ms. @throws RedisUnavailable */
export async function timeAt({ nodes, clockOffsetMs }: Db, key: string): Promise<number> {
  const server = nodes.ownerOf(key);
  if (server === undefined)
    throw new RedisUnavailable("Cluster isn't ready: the server of a key is not known");
  const [seconds, microseconds] = await server.time();
  return Number(seconds) * 1000 + Math.floor(Number(microseconds) / 1000) + clockOffsetMs();
}

/** Reads fields of a hash by their names, which have blanks between them. */
export async function readFields({ redis }: Db, key: string, names: string) {
  const values = await redis.hmget(key, ...names.split(' '));
  const found = names.split(' ').map((name, i) => [name, values[i] ?? undefined]);
  return Object.fromEntries(found) as Record<string, string | undefined>;
}

/** Returns the pairs of an answer in which names and values alternate. */
export const toPairs = (flat: readonly string[]): [name: string, value: string][] =>
  flat.flatMap((name, i) => (i % 2 === 0 ? [[name, flat[i + 1] as string]] : []));

/** Returns every member of a set, each once, in pages: other commands wait for one page, not for 200,000 members. */
export async function* membersOf({ redis }: Db, key: string): AsyncGenerator<string[]> {
  // A scan may return a member twice.
  const seen = new Set<string>();
  for await (const page of redis.sscanStream(key, { count: 500 }))
    yield (page as string[]).filter((one) => !seen.has(one) && seen.add(one));
}

/** Closes the connection for good. Owners of a second connection close it on this one's `end`. */
export function closeDb({ redis }: Db): void {
  // If it is closed between two tries, ioredis stops without an event.
  const between = redis.status === 'reconnecting';
  redis.disconnect();
  if (between) redis.emit('end');
}

/** Waits until every server answers. @throws RedisUnavailable after `timeoutMs`, at once for a reason that waiting does not cure */
export async function waitForRedis(db: Db, timeoutMs: number): Promise<void> {
  const end = performance.now() + timeoutMs;
  for (;;) {
    try {
      await Promise.all(db.nodes.primaries().map(db.nodes.greet));
      if (db.redis.status === 'ready') return;
      throw new RedisUnavailable("Cluster isn't ready: its nodes are not known yet");
    } catch (err) {
      if (isLasting(db.health.behind(err)) || performance.now() > end)
        throw new RedisUnavailable('Connection is closed', { cause: err });
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }
}
