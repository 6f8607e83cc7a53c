import { join } from 'node:path';
import { nodeFlags } from '../../local/nodeFlags.js';
import { type Child, startChild } from '../child.js';
import { knownPids, type Pids } from '../processUsage.js';
import type { Theatre } from '../theatre.js';

/** The target of a load: the service, or the floor. */
export interface Target {
  theatre: Theatre;
  baseUrls: string[];
  accessToken: string;
  /** The processes of the target, with the publisher and the receiver. */
  pids: Pids;
  newClients(count: number): Promise<string[]>;
}

export function serviceIn(theatre: Theatre): Target {
  return {
    theatre,
    baseUrls: theatre.stack.baseUrls,
    accessToken: theatre.cast.platformToken,
    pids: theatre.pids,
    newClients: (count) => theatre.cast.newRegisteredClients(count, theatre.receiverUrl),
  };
}

/** Starts the floor beside the service: the same Redis, publisher and receiver. */
export async function startFloor(
  theatre: Theatre,
  profileDir?: string,
): Promise<Target & Pick<Child<never, never>, 'stop'>> {
  const profiling =
    profileDir === undefined ? [] : ['--cpu-prof', `--cpu-prof-dir=${join(profileDir, 'floor')}`];
  const { child, ready } = await startChild<never, { kind: 'ready'; port: number }>(
    'floor',
    { NODE_ENV: 'production', REDIS_URL: theatre.stack.redisUrl, RECEIVER_URL: theatre.receiverUrl },
    [...nodeFlags, ...profiling],
  );
  const { redis, publisher, receiver } = theatre.pids;
  return {
    theatre,
    baseUrls: [`http://127.0.0.1:${ready.port}`],
    accessToken: 'none',
    pids: knownPids({ floor: child.pid, redis, publisher, receiver }),
    newClients: async (count) => Array.from({ length: count }, (_, i) => `floor-${i}`),
    stop: () => child.stop(),
  };
}
