import { join } from 'node:path';
import { nodeFlags } from '../../local/nodeFlags.js';
import { type Child, startChild } from '../child.js';
import type { Pids } from '../processUsage.js';
import type { Theatre } from '../theatre.js';

/** The target of a load: the service, or the floor. */
export interface Target {
  theatre: Theatre;
  baseUrls: string[];
  accessToken: string;
  /** Its processes, with the publisher and the receiver. */
  pids: Pids;
  newClients(count: number): Promise<string[]>;
}

export function serviceIn(theatre: Theatre): Target {
  return {
    theatre,
    baseUrls: theatre.stack.baseUrls,
    accessToken: theatre.cast.platform.accessToken,
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
  const pids = Object.entries({ floor: child.pid, redis, publisher, receiver });
  return {
    theatre,
    baseUrls: [`http://127.0.0.1:${ready.port}`],
    accessToken: 'none',
    pids: Object.fromEntries(pids.filter((pid): pid is [string, number] => pid[1] !== undefined)),
    newClients: async (count) => Array.from({ length: count }, (_, i) => `floor-${i}`),
    stop: () => child.stop(),
  };
}
