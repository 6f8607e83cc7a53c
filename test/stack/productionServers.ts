/**
 * Temporal's production server on PostgreSQL, for the fault suite with `FAULT_STACK=1` (`npm run test:stack`). Go builds the
 * server once, in the version of docker-compose.yml; PostgreSQL comes from the system. `deploy/temporal` has schema,
 * namespace and limits.
 */
import { existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client, Connection, WorkflowNotFoundError } from '@temporalio/client';
import { findOnPath, isExecutable, temporalBinary } from '../../local/binaries.js';
import { type Child, startChild, waitUntilReady } from '../../local/child.js';
import { freePort } from '../../local/ports.js';
import { projectDir } from '../../src/operator/npmStart.js';
import { succeeds } from '../receiver.js';
import { goTools, run } from '../tools.js';

const scripts = join(projectDir, 'deploy/temporal');
const compose = readFileSync(join(projectDir, 'docker-compose.yml'), 'utf8');
const version = `v${/temporalio\/server:([\d.]+)/.exec(compose)?.[1]}`;
const historyShards = /NUM_HISTORY_SHARDS: (\d+)/.exec(compose)?.[1] ?? '';
/** As in docker-compose.yml: the superuser, and the databases' owner. */
const databaseUser = 'temporal';

/** @throws Error with what to install */
export async function prepareProductionServers(dir: string) {
  const postgresql = await preparePostgresql();
  const temporal = await prepareTemporal(dir, postgresql.port);
  return {
    temporalPort: temporal.port,
    /** Resolves once it accepts connections. */
    startPostgresql: postgresql.start,
    /** Waits for PostgreSQL. The first start makes schemas and namespace; resolves once workflows can be started. */
    async startTemporal(logFile: string, onStart: (child: Child) => void): Promise<void> {
      while (!(await postgresql.accepts())) await sleep(100);
      await temporal.start(logFile, onStart);
    },
    /** Resolves at the end of the first start of Temporal. */
    hasNamespace: temporal.hasNamespace,
    /** Removes PostgreSQL's data; both must have ended. */
    remove: () => rm(postgresql.dir, { recursive: true, force: true }),
  };
}

async function preparePostgresql() {
  const bin = postgresqlPrograms();
  const port = await freePort();
  // Outside the project's folder: PostgreSQL refuses to run as root, and another user may not pass through that folder.
  const dir = await mkdtemp(join(tmpdir(), 'asset-update-postgresql-'));
  const data = join(dir, 'data');
  // Without `PG*` variables, which would change its settings.
  const env = { PATH: process.env.PATH, LC_ALL: 'C' };
  if (isRoot) await run('chown', ['postgres:postgres', dir]);
  const [initdb, initdbArgs] = asUser(join(bin, 'initdb'), [
    `--pgdata=${data}`,
    `--username=${databaseUser}`,
    '--auth=trust',
    '--encoding=UTF8',
    '--locale=C',
  ]);
  await run(initdb, initdbArgs, { cwd: dir, env });

  const accepts = () => succeeds(run(join(bin, 'pg_isready'), ['-q', '-h', '127.0.0.1', '-p', String(port)]));
  const startOnce = async (logFile: string, onStart: (child: Child) => void) => {
    const [command, args] = asUser(join(bin, 'postgres'), [
      '-D',
      data,
      `--port=${port}`,
      '--listen_addresses=127.0.0.1',
      '--unix_socket_directories=',
      // Each of Temporal's services keeps a pool of up to 30 connections.
      '--max_connections=200',
    ]);
    const child = await startChild({ name: 'postgresql', command, args, env, cwd: dir, logFile });
    await waitUntilReady(child, accepts, 60_000);
    onStart(child);
  };
  const start = async (logFile: string, onStart: (child: Child) => void): Promise<void> => {
    for (const end = Date.now() + 30_000; ; await sleep(250)) {
      try {
        return await startOnce(logFile, onStart);
      } catch (err) {
        // After a kill its other processes take a moment to notice that the first one is gone.
        if (!/is still in use|lock file .* already exists/.test(String(err)) || Date.now() > end) throw err;
      }
    }
  };
  return { dir, port, accepts, start };
}

async function prepareTemporal(dir: string, postgresqlPort: number) {
  const programs = await temporalPrograms();
  const bin = join(dir, 'bin');
  mkdirSync(bin);
  for (const [name, program] of Object.entries(programs)) symlinkSync(program, join(bin, name));
  const path = `${bin}:${process.env.PATH}`;
  const ports: Record<string, number> = { FRONTEND_HTTP_PORT: await freePort() };
  for (const service of ['FRONTEND', 'HISTORY', 'MATCHING', 'WORKER']) {
    ports[`${service}_GRPC_PORT`] = await freePort();
    ports[`${service}_MEMBERSHIP_PORT`] = await freePort();
  }
  const port = ports.FRONTEND_GRPC_PORT ?? 0;
  let isPrepared = false;
  let namespaceMade: () => void = () => undefined;
  const hasNamespace = new Promise<void>((resolve) => {
    namespaceMade = resolve;
  });

  const start = async (logFile: string, onStart: (child: Child) => void): Promise<void> => {
    if (!isPrepared) {
      const sql = { SQL_HOST: '127.0.0.1', SQL_PORT: String(postgresqlPort) };
      const env = { PATH: path, ...sql, SQL_USER: databaseUser, SQL_PASSWORD: 'none' };
      await run('sh', [join(scripts, 'schema.sh')], { env, maxBuffer: 16 * 1024 * 1024 });
    }
    const child = await startChild({
      name: 'temporal',
      command: programs['temporal-server'],
      args: ['--allow-no-auth', 'start'],
      // The settings of its container in docker-compose.yml, and a separate port for each service.
      env: {
        PATH: path,
        DB: 'postgres12',
        POSTGRES_SEEDS: '127.0.0.1',
        DB_PORT: String(postgresqlPort),
        POSTGRES_USER: databaseUser,
        POSTGRES_PWD: 'none',
        BIND_ON_IP: '127.0.0.1',
        TEMPORAL_BROADCAST_ADDRESS: '127.0.0.1',
        DYNAMIC_CONFIG_FILE_PATH: join(scripts, 'dynamicconfig.yaml'),
        LOG_LEVEL: 'warn',
        NUM_HISTORY_SHARDS: historyShards,
        ...Object.fromEntries(Object.entries(ports).map(([name, value]) => [name, String(value)])),
      },
      logFile,
      cwd: dir,
      onStart,
    });
    if (!isPrepared) {
      const namespace = { TEMPORAL_NAMESPACE: 'default', NAMESPACE_RETENTION: '24h' };
      const env = { PATH: path, TEMPORAL_ADDRESS: `127.0.0.1:${port}`, ...namespace };
      await run('sh', [join(scripts, 'namespace.sh')], { env });
      isPrepared = true;
    }
    await waitUntilReady(child, () => answersForWorkflows(port), 90_000);
    namespaceMade();
  };
  return { port, start, hasNamespace };
}

/** The frontend answers some seconds before its history service, which has to say that there is no such workflow. */
async function answersForWorkflows(port: number): Promise<boolean> {
  const options = { address: `127.0.0.1:${port}`, connectTimeout: 1000 };
  const connection = await Connection.connect(options).catch(() => undefined);
  if (!connection) return false;
  try {
    await new Client({ connection }).workflow.getHandle('no-such-workflow').describe();
    return true;
  } catch (err) {
    return err instanceof WorkflowNotFoundError;
  } finally {
    await connection.close();
  }
}

const isRoot = process.getuid?.() === 0;

/** Returns the call that runs a program as the user `postgres`, if this process is root. */
function asUser(program: string, args: readonly string[]): [command: string, args: string[]] {
  if (!isRoot) return [program, [...args]];
  return ['setpriv', ['--reuid', 'postgres', '--regid', 'postgres', '--clear-groups', program, ...args]];
}

/** Returns the folder of PostgreSQL's programs: that of Debian's newest version, else of `initdb` on PATH. */
function postgresqlPrograms(): string {
  const debian = '/usr/lib/postgresql';
  const versions = existsSync(debian) ? readdirSync(debian).sort((a, b) => Number(b) - Number(a)) : [];
  const folders = [
    ...versions.map((name) => join(debian, name, 'bin')),
    join(findOnPath('initdb') ?? '', '..'),
  ];
  const found = folders.find((folder) => isExecutable(join(folder, 'initdb')));
  if (!found)
    throw new Error('PostgreSQL is missing: apt-get install postgresql, or brew install postgresql');
  return found;
}

/** Builds the server if it is not there: in mochaGlobalSetup, because no test's time limit is for that. */
export async function temporalPrograms() {
  if (!findOnPath('go')) throw new Error("Go is missing, which builds Temporal's server: https://go.dev/dl");
  const packages = ['cmd/server', 'cmd/tools/sql'].map((name) => `go.temporal.io/server/${name}`);
  const say = () =>
    console.log(`Go builds Temporal's server ${version}: 10 to 40 minutes, the first time only`);
  const timer = setTimeout(say, 1000);
  const home = await goTools('temporal-server', packages, version).finally(() => clearTimeout(timer));
  return {
    'temporal-server': join(home, 'server'),
    'temporal-sql-tool': join(home, 'sql'),
    temporal: await temporalBinary(),
  };
}
