/**
 * Opens a Redis Cluster that takes the commands of a single Redis, and sends each to the node of its key. As with a single one,
 * no command is queued while a node is unavailable. Only a command that a node refused to run is repeated: its slot has moved
 * (MOVED, ASK) or is being moved (TRYAGAIN).
 */
import { Cluster, type Redis } from 'ioredis';
import type { Logger } from '../../log.js';
import type { RedisAddress } from '../../redisAddress.js';
import { coalesceWrites } from './coalesceWrites.js';
import { type ConnectionSettings, retryStrategy } from './connectionSettings.js';
import type { Nodes } from './nodes.js';
import { slotOf } from './slots.js';
import { spreadPipeline } from './spreadPipeline.js';

/** Finds a failover that no command of this process has met. */
const refreshSlotsMs = 1000;
/** The pause between two tries while a slot is being moved key by key; a command ends with its own timeout. */
const tryAgainMs = 30;
const maxRedirections = 64;

export function openCluster(
  address: RedisAddress & { kind: 'cluster' },
  settings: ConnectionSettings,
  log: Logger,
): { redis: Redis; nodes: Nodes } {
  const { username, password, tls } = address;
  const cluster = new Cluster(address.nodes, {
    redisOptions: {
      ...settings,
      username,
      password,
      ...(tls && { tls: {} }),
    },
    enableOfflineQueue: false,
    // It asks a random node, which may not be connected yet, and then opens the cluster again: `waitForRedis` asks each.
    enableReadyCheck: false,
    retryDelayOnFailover: 0,
    retryDelayOnClusterDown: 0,
    retryDelayOnTryAgain: tryAgainMs,
    maxRedirections,
    clusterRetryStrategy: retryStrategy,
    // A certificate names hosts, not their addresses; and an address may change between two connections.
    dnsLookup: (host, callback) => callback(null, host),
  });
  watchNodes(cluster, log);
  refreshSlots(cluster);
  const redis = cluster as unknown as Redis;
  cluster.pipeline = () => spreadPipeline(redis);
  return { redis, nodes: nodesOf(cluster) };
}

/** The option `slotsRefreshInterval` of ioredis does the same, but may never stop after `disconnect` (6.0.0). */
function refreshSlots(cluster: Cluster): void {
  const timer = setInterval(() => {
    if (cluster.status === 'ready') cluster.refreshSlotsCache();
  }, refreshSlotsMs);
  timer.unref();
  cluster.once('end', () => clearInterval(timer));
}

/** Prepares each connection to a node. */
function watchNodes(cluster: Cluster, log: Logger): void {
  const away = new Set<string>();
  cluster.on('+node', (node: Redis) => {
    const name = nameOf(node);
    node.on('connect', () => coalesceWrites(node.stream));
    node.on('ready', () => {
      if (away.delete(name)) log.info({ node: name }, 'a node of redis is back');
    });
    // No command waits in this process for a connection, so the connection is made before the first command.
    node.options.enableOfflineQueue = false;
    if (!node.options.readOnly) node.connect().catch(ignore);
  });
  cluster.on('node error', (err: Error, name: string) => {
    if (away.has(name)) return;
    away.add(name);
    log.warn({ reason: err.message, node: name }, 'a node of redis is away');
  });
  cluster.on('error', ignore);
}

function nodesOf(cluster: Cluster): Nodes {
  const listeners: (() => void)[] = [];
  const tellLost = () => {
    for (const listener of listeners) listener();
  };
  let primariesBefore = '';
  cluster.on('-node', tellLost);
  cluster.on('refresh', () => {
    const primaries = cluster.nodes('master').map(nameOf).sort().join();
    // A replica that has taken over.
    for (const node of cluster.nodes('master')) if (node.status === 'wait') node.connect().catch(ignore);
    if (primaries !== primariesBefore) tellLost();
    primariesBefore = primaries;
  });
  return {
    isCluster: true,
    primaries: () => cluster.nodes('master'),
    ownerOf(key) {
      const name = cluster.slots[slotOf(key)]?.[0];
      return cluster.nodes('master').find((node) => nameOf(node) === name);
    },
    refresh: () => cluster.refreshSlotsCache(),
    onLost: (listener) => void listeners.push(listener),
    ping: () => firstAnswer(cluster.nodes('master').map((node) => node.ping())),
    echo: () => firstAnswer(cluster.nodes('master').map((node) => node.echo(''))),
  };
}

async function firstAnswer(answers: Promise<unknown>[]): Promise<unknown> {
  try {
    return await Promise.any(answers);
  } catch (err) {
    throw (err as AggregateError).errors[0] ?? new Error("Cluster isn't ready: none of its nodes is known");
  }
}

const nameOf = ({ options }: Redis): string => `${options.host}:${options.port}`;

/** The error reaches the callers; this only prevents an unhandled rejection. */
function ignore(): void {}
