/** Temporal's production server on PostgreSQL, all its services in one process, prepared by the scripts of `deploy/temporal`. */
import { execFile } from 'node:child_process';
import { mkdirSync, rmSync, symlinkSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { promisify } from 'node:util';
import { projectDir } from '../../src/operator/running/projectDir.js';
import { type Child, startChild, waitUntilReady } from '../child.js';
import { answersForWorkflows, namespaceStatus } from '../temporal.js';
import type { Programs } from './programs.js';

const run = promisify(execFile);
const scripts = join(projectDir, 'deploy/temporal');

/** Ports of the server's services: for calls, and to find each other. */
export const temporalPortNames = [
  'FRONTEND_GRPC_PORT',
  'FRONTEND_HTTP_PORT',
  'FRONTEND_MEMBERSHIP_PORT',
  'HISTORY_GRPC_PORT',
  'HISTORY_MEMBERSHIP_PORT',
  'MATCHING_GRPC_PORT',
  'MATCHING_MEMBERSHIP_PORT',
  'WORKER_GRPC_PORT',
  'WORKER_MEMBERSHIP_PORT',
] as const;

export type TemporalPorts = Readonly<Record<(typeof temporalPortNames)[number], number>>;

export interface TemporalServerOptions {
  /** The folder for links to programs, under the names that the scripts call. */
  dir: string;
  ports: TemporalPorts;
  postgresql: { port: number; user: string; password: string };
  programs: Pick<Programs, 'temporalServer' | 'temporalSqlTool' | 'temporalCli'>;
  namespace: string;
  logFile: string;
  onStart?: ((child: Child) => void) | undefined;
}

/** As in docker-compose.yml. The first start fixes it for good. */
const historyShards = 64;

/** Starts the server, and creates schema and namespace if they are missing; resolves once the namespace can be used. */
export async function startTemporalServer(options: TemporalServerOptions): Promise<Child> {
  const { dir, ports, postgresql, programs, namespace, logFile, onStart } = options;
  const path = pathWith(dir, {
    'temporal-sql-tool': programs.temporalSqlTool,
    temporal: programs.temporalCli,
  });
  await run('sh', [join(scripts, 'schema.sh')], {
    env: {
      PATH: path,
      SQL_HOST: '127.0.0.1',
      SQL_PORT: String(postgresql.port),
      SQL_USER: postgresql.user,
      SQL_PASSWORD: postgresql.password,
    },
    maxBuffer: 16 * 1024 * 1024,
  });
  const child = await startChild({
    name: 'temporal',
    command: programs.temporalServer,
    args: ['--allow-no-auth', 'start'],
    // The settings of its container in docker-compose.yml, and a separate port for each service.
    env: {
      PATH: process.env.PATH,
      DB: 'postgres12',
      POSTGRES_SEEDS: '127.0.0.1',
      DB_PORT: String(postgresql.port),
      POSTGRES_USER: postgresql.user,
      POSTGRES_PWD: postgresql.password,
      BIND_ON_IP: '127.0.0.1',
      TEMPORAL_BROADCAST_ADDRESS: '127.0.0.1',
      DYNAMIC_CONFIG_FILE_PATH: join(scripts, 'dynamicconfig.yaml'),
      LOG_LEVEL: 'warn',
      NUM_HISTORY_SHARDS: String(historyShards),
      ...Object.fromEntries(Object.entries(ports).map(([name, port]) => [name, String(port)])),
    },
    logFile,
    cwd: dir,
    onStart,
  });
  const port = ports.FRONTEND_GRPC_PORT;
  const answers = ['0', '5'];
  await waitUntilReady(
    child,
    async () => answers.includes(String(await namespaceStatus(port, namespace))),
    90_000,
  );
  if ((await namespaceStatus(port, namespace)) !== '0') await makeNamespace(path, port, namespace);
  // Its frontend answers some seconds before its history service.
  await waitUntilReady(child, () => answersForWorkflows(port, namespace), 90_000);
  return child;
}

async function makeNamespace(path: string, port: number, namespace: string): Promise<void> {
  await run('sh', [join(scripts, 'namespace.sh')], {
    env: {
      PATH: path,
      TEMPORAL_ADDRESS: `127.0.0.1:${port}`,
      TEMPORAL_NAMESPACE: namespace,
      NAMESPACE_RETENTION: process.env.NAMESPACE_RETENTION || '24h',
    },
  });
}

/** Returns a PATH on which these names lead to these programs. */
function pathWith(dir: string, programs: Record<string, string>): string {
  const bin = join(dir, 'bin');
  mkdirSync(bin, { recursive: true, mode: 0o700 });
  for (const [name, program] of Object.entries(programs)) {
    const link = join(bin, name);
    rmSync(link, { force: true });
    symlinkSync(program, link);
  }
  return `${bin}${delimiter}${process.env.PATH ?? ''}`;
}
