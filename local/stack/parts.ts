/** The parts of the stack: how each is started, and the order in which they are stopped. */
import { join } from 'node:path';
import type { Config } from '../../src/config.js';
import { projectDir } from '../../src/operator/running/projectDir.js';
import { answersOk } from '../answersOk.js';
import { type Child, startChild, waitUntilReady } from '../child.js';
import { localSettings } from '../localSettings.js';
import { logFile } from '../logFile.js';
import { nodeFlags } from '../nodeFlags.js';
import { startRedis } from '../redis.js';
import { type StopOrder, serviceGraceMs } from '../supervisor.js';
import { startBalancer } from './balancer.js';
import { hasAppendOnlyFile } from './folders.js';
import type { PartName, StackPorts } from './ports.js';
import { passwordOf, postgresqlUser, startPostgresql } from './postgresql.js';
import type { Programs } from './programs.js';
import { startPrometheus } from './prometheus.js';
import { startTemporalServer } from './temporalServer.js';

/** Callers first, because their work under way is settled in the parts that they call. */
export const stopOrder: StopOrder = [
  { name: 'service-1', graceMs: serviceGraceMs },
  { name: 'service-2', graceMs: serviceGraceMs },
  { name: 'balancer', graceMs: 5000 },
  { name: 'prometheus', graceMs: 10_000 },
  { name: 'temporal', graceMs: 30_000 },
  { name: 'postgresql', graceMs: 60_000 },
  { name: 'replica', graceMs: 15_000 },
  { name: 'redis', graceMs: 15_000 },
];

export interface PartsOptions {
  dir: string;
  config: Pick<Config, 'TEMPORAL_NAMESPACE'>;
  programs: Programs;
  ports: StackPorts;
  onStart: (child: Child) => void;
  /** Added to the command line of the primary Redis. */
  redisArgs?: readonly string[];
  say: (line: string) => void;
}

/** Returns a start function for each part; it resolves once its part can be used. */
export function partsOf(options: PartsOptions): Record<PartName, () => Promise<unknown>> {
  const { dir, config, programs, onStart, say } = options;
  const { ports, temporal } = options.ports;
  const log = (name: string) => logFile(dir, name);
  const environment = serviceEnvironment(options);

  const service = (number: 1 | 2) => async () => {
    const port = ports[`service-${number}`];
    const child = await startChild({
      name: `service-${number}`,
      command: process.execPath,
      args: [...nodeFlags, join(projectDir, 'dist/src/main.js'), 'all'],
      env: {
        ...process.env,
        ...environment,
        HOST: '127.0.0.1',
        PORT: String(port),
        ADMIN_HOST: '127.0.0.1',
        ADMIN_PORT: String(ports[`admin-${number}`]),
      },
      logFile: log(`service-${number}`),
      onStart,
    });
    await waitUntilReady(child, () => answersOk(`http://127.0.0.1:${port}/readyz`), 180_000);
  };

  return {
    async redis() {
      refuseEmptyPrimary(dir);
      const own = { dir: join(dir, 'redis'), port: ports.redis, binary: programs.redis };
      await startRedis({ ...own, logFile: log('redis'), onStart, args: options.redisArgs ?? [], say });
    },
    async replica() {
      const own = { name: 'replica', dir: join(dir, 'replica'), port: ports.replica, binary: programs.redis };
      const args = ['--replicaof', '127.0.0.1', String(ports.redis)];
      await startRedis({ ...own, logFile: log('replica'), onStart, args, say });
    },
    postgresql: () =>
      startPostgresql({
        ...{ dir: join(dir, 'postgresql'), port: ports.postgresql, bin: programs.postgresqlBin },
        ...{ logFile: log('postgresql'), onStart },
      }),
    temporal: () =>
      startTemporalServer({
        ...{ dir, ports: temporal, programs, namespace: config.TEMPORAL_NAMESPACE },
        postgresql: {
          port: ports.postgresql,
          user: postgresqlUser,
          password: passwordOf(join(dir, 'postgresql')),
        },
        ...{ logFile: log('temporal'), onStart },
      }),
    'service-1': service(1),
    'service-2': service(2),
    balancer: () =>
      startBalancer({
        ...{ dir, program: programs.haproxy, logFile: log('balancer'), onStart },
        ...{ port: ports.balancer, healthPort: ports['balancer-health'] },
        services: [ports['service-1'], ports['service-2']],
      }),
    async prometheus() {
      if (!programs.prometheus) return;
      await startPrometheus({
        ...{ dir: join(dir, 'prometheus'), port: ports.prometheus, program: programs.prometheus },
        targets: [ports['admin-1'], ports['admin-2']].map((port) => `127.0.0.1:${port}`),
        ...{ logFile: log('prometheus'), onStart },
      });
    },
  };
}

/** Returns the settings of both processes of the service, and of the operator's commands. */
export function serviceEnvironment({ dir, ports: { ports, temporal } }: Pick<PartsOptions, 'dir' | 'ports'>) {
  return {
    REDIS_URL: `redis://127.0.0.1:${ports.redis}`,
    TEMPORAL_ADDRESS: `127.0.0.1:${temporal.FRONTEND_GRPC_PORT}`,
    ...localSettings(dir, [...Object.values(ports), ...Object.values(temporal)]),
    TRUSTED_PROXIES: process.env.TRUSTED_PROXIES || '127.0.0.0/8',
    // The balancer notices within a second.
    SHUTDOWN_DELAY_SECONDS: process.env.SHUTDOWN_DELAY_SECONDS || '2',
  };
}

/** Refuses to start an empty primary, because it would empty its replica. @throws Error with what to do */
function refuseEmptyPrimary(dir: string): void {
  if (hasAppendOnlyFile(join(dir, 'redis')) || !hasAppendOnlyFile(join(dir, 'replica'))) return;
  throw new Error(
    `the folder of redis is empty, but the folder of its replica is not. A replica that follows an empty primary is emptied. ` +
      `Stop the stack, copy ${join(dir, 'replica')} to ${join(dir, 'redis')}, and start it again, or restore a backup`,
  );
}
