import { join } from 'node:path';
import type { Child } from '../local/child.js';
import { freePort } from '../local/ports.js';
import { startRedis } from '../local/redis.js';
import { partsOf } from '../local/stack/parts.js';
import { chooseStackPorts, type PartName } from '../local/stack/ports.js';
import { findPrograms } from '../local/stack/programs.js';
import { startTemporal } from '../local/temporal.js';

/** Redis and Temporal that a benchmark starts for itself; absent if the environment names one. */
export interface Servers {
  redis?: { url: string; port: number };
  temporal?: { address: string; port: number };
  pids: Record<string, number>;
  /** Starts a balancer in front of ready processes of the service. @returns its URL */
  balance?: (ports: readonly [number, number]) => Promise<string>;
  stop(): Promise<void>;
}

/** Starts the servers of development, unless REDIS_URL or TEMPORAL_ADDRESS names another. */
export async function startServers(dir: string, redisArgs: readonly string[]): Promise<Servers> {
  const redis = process.env.REDIS_URL
    ? undefined
    : await startRedis({ dir: join(dir, 'redis'), args: redisArgs });
  const temporal = process.env.TEMPORAL_ADDRESS
    ? undefined
    : await startTemporal({ dir: join(dir, 'temporal') }).catch(async (err) => {
        await redis?.stop();
        throw err;
      });
  return {
    ...(redis && { redis }),
    ...(temporal && { temporal }),
    pids: { ...(temporal && { temporal: temporal.pid }), ...(redis && { redis: redis.pid }) },
    async stop() {
      await temporal?.stop();
      await redis?.stop();
    },
  };
}

/** Starts the servers of `npm run stack`. */
export async function startProductionServers(dir: string, redisArgs: readonly string[]): Promise<Servers> {
  const children: Child[] = [];
  const pids: Record<string, number> = {};
  const ports = await chooseStackPorts({ preferably: freePort, any: freePort }, dir);
  const options = {
    ...{ dir, ports, redisArgs, config: { TEMPORAL_NAMESPACE: 'default' } },
    programs: await findPrograms((line) => console.error(line)),
    onStart: (child: Child) => {
      children.push(child);
      pids[child.name] = child.pid;
    },
    say: (line: string) => console.error(line),
  };
  const parts = partsOf(options);
  const stop = async () => {
    for (const child of children.reverse()) await child.stop(60_000);
  };
  try {
    const inOrder: PartName[] = ['redis', 'replica', 'postgresql', 'temporal'];
    for (const name of inOrder) await parts[name]();
  } catch (err) {
    await stop();
    throw err;
  }
  const { redis } = ports.ports;
  const temporal = ports.temporal.FRONTEND_GRPC_PORT;
  return {
    redis: { url: `redis://127.0.0.1:${redis}`, port: redis },
    temporal: { address: `127.0.0.1:${temporal}`, port: temporal },
    pids,
    async balance([one, other]) {
      const behind = { ...ports.ports, 'service-1': one, 'service-2': other };
      await partsOf({ ...options, ports: { ...ports, ports: behind } }).balancer();
      return `http://127.0.0.1:${ports.ports.balancer}`;
    },
    stop,
  };
}
