/** Servers of one suite, which it may break: a Redis or a Redis Cluster, and slots that move. */
import { setTimeout as sleep } from 'node:timers/promises';
import { startRedis } from '../local/redis.js';
import { type ClusterNode, type RedisCluster, startCluster } from '../local/redisCluster.js';
import { newFolder, quiet, servers } from './servers.js';

export async function startOwnRedis(
  args: readonly string[] = [],
  port?: number,
  binary = servers().redisServerBinary,
) {
  const dir = await newFolder();
  return { ...(await startRedis({ dir, binary, args, port })), dir };
}

export async function startOwnCluster(nodeTimeoutMs = quiet.nodeTimeoutMs): Promise<RedisCluster> {
  const { redisServerBinary: binary } = servers();
  return await startCluster({ dir: await newFolder(), binary, replicasOfEach: 0, nodeTimeoutMs });
}

/** Moves a slot some keys at a time, as `redis-cli --cluster reshard` does. @param onKeys is awaited after each piece */
export async function moveSlot(
  slot: number,
  from: ClusterNode,
  to: ClusterNode,
  {
    keysAtOnce = 10,
    onKeys = async () => undefined,
  }: { keysAtOnce?: number; onKeys?: () => Promise<unknown> } = {},
): Promise<void> {
  await to.redis.call('CLUSTER', 'SETSLOT', slot, 'IMPORTING', from.id);
  await from.redis.call('CLUSTER', 'SETSLOT', slot, 'MIGRATING', to.id);
  for (;;) {
    const keys = (await from.redis.callBuffer('CLUSTER', 'GETKEYSINSLOT', slot, keysAtOnce)) as Buffer[];
    if (keys.length === 0) break;
    await from.redis.call('MIGRATE', '127.0.0.1', to.server.port, '', 0, 5000, 'KEYS', ...keys);
    await onKeys();
  }
  for (const node of [to, from]) await node.redis.call('CLUSTER', 'SETSLOT', slot, 'NODE', to.id);
}

/** Moves slots as a whole where the server can (Valkey 9), else one after the other. */
export async function moveSlotsAtOnce(
  [first, last]: readonly [number, number],
  from: ClusterNode,
  to: ClusterNode,
): Promise<void> {
  try {
    await from.redis.call('CLUSTER', 'MIGRATESLOTS', 'SLOTSRANGE', first, last, 'NODE', to.id);
  } catch (err) {
    if (!(err instanceof Error && /unknown subcommand/i.test(err.message))) throw err;
    for (let slot = first; slot <= last; slot++) await moveSlot(slot, from, to);
    return;
  }
  for (;;) {
    const jobs = (await from.redis.call('CLUSTER', 'GETSLOTMIGRATIONS')) as string[][];
    const states = jobs.map((job) => job[job.indexOf('state') + 1] ?? '');
    if (states.every((state) => state === 'success')) return;
    if (states.includes('failed')) throw new Error(`the slots did not move: ${JSON.stringify(jobs)}`);
    await sleep(20);
  }
}
