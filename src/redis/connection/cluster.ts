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
    retryDelayOnFailover: 0,
    retryDelayOnClusterDown: 0,
    retryDelayOnTryAgain: tryAgainMs,
    maxRedirections,
    clusterRetryStrategy: retryStrategy,
    // A certificate names hosts, not their addresses; and an address may change between two connections.
    dnsLookup: (host, callback) => callback(null, host),
  });
  const sent = watchNodes(cluster, log);
  refreshSlots(cluster);
  cluster.pipeline = () => spreadPipeline(cluster);
  return { redis: cluster as unknown as Redis, nodes: nodesOf(cluster, sent) };
}

/** The option `slotsRefreshInterval` of ioredis does the same, but may never stop after `disconnect` (6.0.0). */
function refreshSlots(cluster: Cluster): void {
  const timer = setInterval(() => {
    if (cluster.status === 'ready') cluster.refreshSlotsCache();
  }, refreshSlotsMs);
  timer.unref();
  cluster.once('end', () => clearInterval(timer));
}

/** Prepares each connection to a node. @returns by slot, the connection that sent its last command */
function watchNodes(cluster: Cluster, log: Logger): (Redis | undefined)[] {
  const sent: (Redis | undefined)[] = [];
  const away = new Set<string>();
  cluster.on('+node', (node: Redis) => {
    const name = nameOf(node);
    const send = node.sendCommand.bind(node);
    node.sendCommand = (command, stream) => {
      const slot = command.getSlot() as number | null;
      if (slot !== null) sent[slot] = node;
      return send(command, stream);
    };
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
  return sent;
}

function nodesOf(cluster: Cluster, sent: readonly (Redis | undefined)[]): Nodes {
  const listeners: (() => void)[] = [];
  const tellLost = () => {
    for (const listener of listeners) listener();
  };
  let primariesBefore = '';
  cluster.on('-node', tellLost);
  cluster.on('refresh', () => {
    const primaries = cluster.nodes('master').map(nameOf).sort().join();
    if (primaries !== primariesBefore) tellLost();
    primariesBefore = primaries;
  });
  const owns = (node: Redis, key: string): boolean => cluster.slots[slotOf(key)]?.[0] === nameOf(node);
  /** By node, the number in the last key that was found for it. */
  const numbers = new WeakMap<Redis, number>();
  return {
    isCluster: true,
    primaries: () => cluster.nodes('master'),
    sentOn(key) {
      const slot = slotOf(key);
      return sent[slot] ?? cluster.nodes('master').find((node) => nameOf(node) === cluster.slots[slot]?.[0]);
    },
    keyOn(node, name, other) {
      const first = numbers.get(node) ?? 0;
      for (let n = first; n < first + triedNumbers; n++) {
        const key = `${name}:{${n}}`;
        if (key === other || !owns(node, key)) continue;
        numbers.set(node, n);
        return key;
      }
      numbers.delete(node);
      return undefined;
    },
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

/** For a node with one slot in a hundred, all of these fail once in a thousand times. */
const triedNumbers = 700;

const nameOf = ({ options }: Redis): string => `${options.host}:${options.port}`;

/** The error reaches the callers; this only prevents an unhandled rejection. */
function ignore(): void {}
