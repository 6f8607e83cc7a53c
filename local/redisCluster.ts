/** A Redis Cluster on this machine: primaries and their replicas, for tests and measurements. */
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { toFlags } from './child.js';
import { freePort } from './ports.js';
import { type RedisServer, startRedis } from './redis.js';

export interface ClusterNode {
  server: RedisServer;
  /** A connection to this node alone. */
  redis: Redis;
  id: string;
}

export interface RedisCluster {
  /** Names every node. */
  url: string;
  /** The program of the servers. */
  binary: string;
  nodes: ClusterNode[];
  /** Returns the node that says now that it owns a slot. */
  ownerOf(slot: number): Promise<ClusterNode>;
  stop(): Promise<void>;
}

const slots = 16_384;
/** A node that is silent for this long counts as down. A busy machine would cause false alarms with less. */
const shortestNodeTimeoutMs = 3000;

const settings = (nodeTimeoutMs: number): string[] =>
  toFlags({
    'cluster-enabled': 'yes',
    'cluster-node-timeout': nodeTimeoutMs,
    'cluster-require-full-coverage': 'no',
    'cluster-allow-replica-migration': 'no',
    'cluster-announce-ip': '127.0.0.1',
    'repl-diskless-sync-delay': 0,
  });

/** Starts a cluster; resolves once every node knows every other and the replicas are in sync. */
export async function startCluster(options: {
  dir: string;
  binary?: string;
  primaries?: number;
  replicasOfEach?: number;
  /** Added to the command line of the replicas only. */
  replicaArgs?: readonly string[];
  /** A longer time prevents failovers on a busy machine. */
  nodeTimeoutMs?: number;
}): Promise<RedisCluster> {
  const {
    dir,
    binary,
    primaries = 3,
    replicasOfEach = 1,
    replicaArgs = [],
    nodeTimeoutMs = shortestNodeTimeoutMs,
  } = options;
  const nodes: ClusterNode[] = [];
  const start = async (args: readonly string[] = []): Promise<ClusterNode> => {
    const [port, busPort] = [await freePort(), await freePort()];
    const server = await startRedis({
      dir: join(dir, `node-${port}`),
      binary,
      port,
      args: [...settings(nodeTimeoutMs), '--cluster-port', String(busPort), ...args],
    });
    const redis = new Redis(server.url, { retryStrategy: (times) => Math.min(50 * times, 500) });
    redis.on('error', () => undefined);
    const node = { server, redis, id: String(await redis.cluster('MYID')) };
    // Before the node meets another: nodes with the same epoch would first have to settle the conflict.
    await redis.call('CLUSTER', 'SET-CONFIG-EPOCH', nodes.length + 1);
    if (nodes[0] !== undefined)
      await redis.call('CLUSTER', 'MEET', '127.0.0.1', nodes[0].server.port, await readBusPort(nodes[0]));
    nodes.push(node);
    return node;
  };
  const first: ClusterNode[] = [];
  for (let i = 0; i < primaries; i++) {
    const node = await start();
    const from = Math.floor((i * slots) / primaries);
    await node.redis.call('CLUSTER', 'ADDSLOTSRANGE', from, Math.floor(((i + 1) * slots) / primaries) - 1);
    first.push(node);
  }
  for (const primary of first) {
    for (let i = 0; i < replicasOfEach; i++) {
      const replica = await start(replicaArgs);
      await until('the replica knows its primary', async () => (await readIds(replica)).includes(primary.id));
      await replica.redis.call('CLUSTER', 'REPLICATE', primary.id);
    }
  }
  await until('every node knows every other', async () => {
    const states = await Promise.all(nodes.map((node) => isComplete(node, primaries)));
    return states.every(Boolean);
  });
  for (const node of nodes.slice(primaries)) {
    await until('replicas are in sync', async () =>
      /master_link_status:up/.test(await node.redis.info('replication')),
    );
  }

  return {
    url: `redis+cluster://${nodes.map(({ server }) => `127.0.0.1:${server.port}`).join()}`,
    binary: nodes[0]?.server.binary ?? '',
    nodes,
    async ownerOf(slot) {
      for (const node of nodes.filter(({ redis }) => redis.status === 'ready')) {
        const ranges = await node.redis.cluster('SLOTS');
        const owner = ranges.find(([from, to]) => from <= slot && slot <= to)?.[2]?.[2];
        if (owner === node.id) return node;
      }
      throw new Error(`no node owns slot ${slot}`);
    },
    async stop() {
      for (const { redis } of nodes) redis.disconnect();
      await Promise.all(nodes.map(({ server }) => server.stop()));
    },
  };

  async function isComplete({ redis }: ClusterNode, shards: number): Promise<boolean> {
    const info = String(await redis.cluster('INFO'));
    const ranges = (await redis.cluster('SLOTS')) as unknown[][];
    return (
      /cluster_state:ok/.test(info) &&
      /cluster_slots_assigned:16384/.test(info) &&
      ranges.length === shards &&
      ranges.every((range) => range.length === 3 + replicasOfEach)
    );
  }
}

async function readBusPort({ redis }: ClusterNode): Promise<number> {
  const [, port] = (await redis.config('GET', 'cluster-port')) as string[];
  return Number(port);
}

/** Returns the ids of a node and of the nodes that it is connected to. */
async function readIds({ redis }: ClusterNode): Promise<string[]> {
  const lines = String(await redis.cluster('NODES'))
    .trim()
    .split('\n');
  return lines
    .map((line) => line.split(' '))
    .filter(([, , flags = '', , , , , link]) => link === 'connected' && !/handshake|fail/.test(flags))
    .map(([id = '']) => id);
}

async function until(what: string, holds: () => Promise<boolean>): Promise<void> {
  const end = Date.now() + 30_000;
  while (!(await holds())) {
    if (Date.now() > end) throw new Error(`not within 30 s: ${what}`);
    await sleep(50);
  }
}
