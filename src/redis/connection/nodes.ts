/**
 * Opens the servers behind the commands: one Redis, a Redis that Sentinels name, or a cluster. No command is queued while a server
 * is unavailable, and none is repeated, except one that a node of a cluster refused to run: its slot has moved (MOVED, ASK)
 * or is being moved (TRYAGAIN).
 */
import type { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { Cluster, Redis, type RedisOptions } from 'ioredis';
import type { RedisAddress } from '../../addresses.js';
import { leaveDemoted } from './demoted.js';
import type { StoreHealth } from './health.js';
import { partsOf, slotOf } from './keys.js';
import { naming, openSentinels } from './sentinels.js';
import { ignore, isLasting, isOfCommand, RedisUnavailable, refusalOf } from './unavailable.js';

export type OwnCertificate = Record<'cert' | 'key', string>;

export interface Nodes {
  isCluster: boolean;
  /** Returns the name of a server; empty unless it is a node of a cluster. */
  nameOf(server: Redis): string;
  /** Returns connections to all known servers that take writes. */
  primaries(): Redis[];
  /** Returns the connection to the server that keeps this key; undefined if none is known. */
  ownerOf(key: string): Redis | undefined;
  /** Resolves once a server takes what changes something, even if only to say that its user may not. @throws its refusal */
  greet(server: Redis): Promise<void>;
  refresh(): void;
  /** The last step back of each server's clock that this process knows of (clocks.ts). */
  turned: WeakMap<Redis, number>;
  /** Of each server whose data became that of an older time (`from`, ms): what was written between these times is gone. */
  lost: WeakMap<Redis, { from: number; at: number }>;
  /**
   * Claims that this process has announced, the oldest first, by client token (owedClients.ts). It is emptied when a server may
   * answer from now on that has lost answered writes.
   */
  announced: Map<string, { atMs: number; written: Promise<boolean> }>;
}

/** Returns one of the parts of a key (`partsOf`) that a server keeps. */
export const partOn = ({ isCluster, ownerOf }: Nodes, whole: string, server: Redis): string | undefined =>
  partsOf(isCluster, whole).find((key) => ownerOf(key) === server);

/** Resolves once a server answers. @throws the error of the first server if none answers */
export async function firstAnswer({ primaries }: Nodes, ask: (server: Redis) => Promise<unknown>) {
  return await Promise.any(primaries().map(ask)).catch(({ errors }: AggregateError) => {
    throw errors[0] ?? new Error("Cluster isn't ready: none of its nodes is known");
  });
}

/** Works on a connection of its own, whose state it may change. What a server refuses there, it refuses nobody else. */
export async function onOwnConnection<T>(server: Redis, work: (own: Redis) => Promise<T>): Promise<T> {
  const own = server.duplicate({ lazyConnect: false, enableOfflineQueue: true, retryStrategy: () => null });
  own.on('error', ignore);
  return await work(own).finally(() => own.disconnect());
}

/** Works again and again until a connection is closed for good. */
export function whileOpen(redis: Redis | Cluster, everyMs: number, work: () => unknown): void {
  const timer = setInterval(work, everyMs).unref();
  redis.once('end', () => clearInterval(timer));
}

/** A connection without an answer for this much longer than a command may take is dead, and is replaced. */
const deadAfterMs = 500;

export function openNodes(
  address: RedisAddress,
  commandTimeoutMs: number,
  health: StoreHealth,
  channel: string,
  certificate?: OwnCertificate,
): { redis: Redis; nodes: Nodes } {
  // Further members would be options of the connection.
  const own = certificate && { cert: certificate.cert, key: certificate.key };
  const greet = greetingOn(channel);
  const known = { greet, announced: new Map(), turned: new WeakMap(), lost: new WeakMap() };
  const options = {
    // Neither HELLO nor INFO nor CLIENT is needed then; whether a server answers is asked by `greet`.
    protocol: 2 as const,
    enableReadyCheck: address.kind === 'sentinel',
    disableClientInfo: true,
    enableOfflineQueue: false,
    maxRetriesPerRequest: 0,
    autoResendUnfulfilledCommands: false,
    connectTimeout: 1000,
    commandTimeout: commandTimeoutMs,
    socketTimeout: commandTimeoutMs + deadAfterMs,
  };
  return address.kind === 'cluster'
    ? openCluster(address, options, health, known, own)
    : openSingle(address, options, health, known, channel, own);
}

/**
 * Resolves once a server answers, even if only that its user may not run this. What a limit or a proxy before it refuses, in whatever
 * words, it refuses to every command. PUBLISH waits where writes wait (CLIENT PAUSE WRITE, a failover that an operator began), and
 * is answered where they are refused: ECHO would be answered in both, and Redis refuses PING after a failed write.
 */
const greetingOn =
  (channel: string): Nodes['greet'] =>
  async (server) => {
    try {
      await server.publish(channel, '');
    } catch (err) {
      const refusal = refusalOf(err);
      if (!isOfCommand(refusal.reason) || !isLasting(refusal)) throw err;
    }
  };

const greetAfterMs = 20;

/**
 * Has `told` hear why a connection fails, and without an error once the server answers on it: a server may accept a connection
 * before it refuses it. A connection whose SELECT is refused is cut, because ioredis would go on in database 0.
 */
export function watchConnection(redis: Redis, greet: Nodes['greet'], told: (err?: unknown) => void): void {
  redis.on('error', (err: Error) => {
    // A TLS socket may fail once more after its certificate was refused: ioredis hears only the first error.
    redis.stream?.on('error', ignore);
    told(err);
    if (refusalOf(err).command === 'SELECT') redis.disconnect(true);
  });
  redis.on('ready', async () => {
    // A refusal can only be read if nothing was written to the connection that the server has closed.
    await sleep(greetAfterMs, undefined, { ref: false });
    while (redis.status === 'ready') {
      try {
        await greet(redis);
        return told();
      } catch (err) {
        if (redis.status === 'ready' || refusalOf(err).reason !== 'away') told(err);
        await sleep(100, undefined, { ref: false });
      }
    }
    if (redis.status !== 'end') told(new RedisUnavailable('Connection is closed before an answer'));
  });
}

export const retryStrategy = (times: number): number => Math.min(50 * times, 500);

/** What a process learns of its servers, whichever they are. */
type Known = Pick<Nodes, 'greet' | 'announced' | 'turned' | 'lost'>;

function openSingle(
  address: RedisAddress & { kind: 'single' | 'sentinel' },
  common: RedisOptions,
  health: StoreHealth,
  known: Known,
  channel: string,
  own?: OwnCertificate,
): { redis: Redis; nodes: Nodes } {
  const reconnectOnError = (err: Error) => leave(err);
  const options = { ...common, retryStrategy, reconnectOnError };
  const redis =
    address.kind === 'single'
      ? new Redis(address.url, { ...options, lazyConnect: true })
      : openSentinels(address, options, own);
  const leave = leaveDemoted(redis, channel);
  redis.on('connect', () => coalesceWrites(redis.stream));
  watchConnection(redis, known.greet, (err) => health.connected('', err));
  // After a reconnect another server may answer, or one that has lost its last second.
  redis.on('close', () => known.announced.clear());
  if (address.kind === 'single') {
    nameHost(redis, own);
    redis.connect().catch(ignore);
  }
  const find = { nameOf: () => '', primaries: () => [redis], ownerOf: () => redis };
  return { redis, nodes: { isCluster: false, ...find, refresh() {}, ...known } };
}

/**
 * Has the TLS handshake name the host (SNI): a provider may have many stores behind one address. Neither Node nor ioredis does so.
 * @param redis has not begun to connect
 */
function nameHost({ options }: Redis, own?: OwnCertificate): void {
  const { tls, host = '' } = options;
  if (tls) options.tls = { ...tls, ...own, ...naming(host) };
}

/** Finds a failover that no command of this process has met. */
const refreshSlotsMs = 1000;
/** The pause before a command is sent again whose slot has moved or is being moved key by key; it ends with its own timeout. */
export const redirectedMs = 30;

function openCluster(
  { nodes, username, password, tls }: RedisAddress & { kind: 'cluster' },
  options: RedisOptions,
  health: StoreHealth,
  known: Known,
  own?: OwnCertificate,
): { redis: Redis; nodes: Nodes } {
  const cluster = new Cluster(nodes, {
    redisOptions: { ...options, username, password, ...(tls && { tls: { ...own } }) },
    enableOfflineQueue: false,
    // It asks a random node, which may not be connected yet, and then opens the cluster again: `waitForRedis` asks each.
    enableReadyCheck: false,
    retryDelayOnFailover: 0,
    retryDelayOnClusterDown: 0,
    retryDelayOnTryAgain: redirectedMs,
    maxRedirections: 64,
    clusterRetryStrategy: retryStrategy,
    // A certificate names hosts, not their addresses; and an address may change between two connections.
    dnsLookup: (host, callback) => callback(null, host),
  });
  const primaries = () => cluster.nodes('master');
  const { announced } = known;
  let namesBefore = '';
  cluster.on('+node', (node: Redis) => {
    nameHost(node);
    node.on('connect', () => coalesceWrites(node.stream));
    watchConnection(node, known.greet, (err) => err === undefined && health.connected(nameOf(node)));
    // No command waits in this process for a connection, so the connection is made before the first command.
    node.options.enableOfflineQueue = false;
    if (!node.options.readOnly) node.connect().catch(ignore);
  });
  cluster.on('-node', () => announced.clear());
  cluster.on('refresh', () => {
    // A node whose connection ended is out of ioredis' list until the next look, which finds what is part of the cluster.
    health.keepOnly(cluster.nodes().map(nameOf));
    const names = primaries().map(nameOf).sort().join();
    // A replica that has taken over.
    for (const node of primaries()) if (node.status === 'wait') node.connect().catch(ignore);
    if (names !== namesBefore) announced.clear();
    namesBefore = names;
  });
  cluster.on('node error', (err: Error, name: string) => {
    const { reason } = refusalOf(err);
    // Asked for its slots, a server may refuse on a connection that works.
    if (isOfCommand(reason) || reason === 'not_cluster') health.note(err, name);
    else health.connected(name, err);
  });
  cluster.on('error', ignore);
  // The option `slotsRefreshInterval` of ioredis does the same, but may never stop after `disconnect` (6.0.0).
  whileOpen(cluster, refreshSlotsMs, () => cluster.status === 'ready' && cluster.refreshSlotsCache());
  return {
    redis: cluster as unknown as Redis,
    nodes: {
      isCluster: true,
      nameOf,
      primaries,
      ownerOf(key) {
        const name = cluster.slots[slotOf(key)]?.[0];
        return primaries().find((node) => nameOf(node) === name);
      },
      refresh: () => cluster.refreshSlotsCache(),
      ...known,
    },
  };
}

const nameOf = ({ options }: Redis): string => `${options.host}:${options.port}`;

/** Large enough to share a system call, small enough that Redis begins while the rest is still being built. */
const piece = 4;

/**
 * Sends the commands that one round of the event loop writes to a socket in pieces of several commands. A piece takes one
 * system call, and Redis flushes its file once for all of its commands. No command waits longer than for the requests
 * that this round has already read.
 */
function coalesceWrites(socket: Socket): void {
  const write = socket.write;
  let corked = 0;
  const send = () => {
    corked = 0;
    socket.uncork();
  };
  socket.write = ((...args: Parameters<typeof write>) => {
    if (corked === 0) {
      socket.cork();
      setImmediate(send);
    }
    corked++;
    const more = write.apply(socket, args);
    if (corked === piece) send();
    return more;
  }) as typeof write;
}
