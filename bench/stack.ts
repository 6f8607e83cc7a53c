import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { answersOk } from '../local/answersOk.js';
import { type Child, startChild, waitUntilReady } from '../local/child.js';
import { nodeFlags } from '../local/nodeFlags.js';
import { freePort } from '../local/ports.js';
import { readConfig } from '../src/config.js';
import { createLogger } from '../src/log.js';
import { projectDir } from '../src/operator/running/projectDir.js';
import { type Db, openDb, waitForRedis } from '../src/redis/connection/db.js';
import { createSecretBox, type SecretBox } from '../src/redis/records/secretBox.js';
import { createDataFolder } from './dataFolder.js';
import type { Pids } from './processUsage.js';
import { startProductionServers, startServers } from './servers.js';
import { stopList } from './stopList.js';

export interface StackOptions {
  /** On the servers of `npm run stack`: two processes of API and worker in one behind a balancer. */
  production?: boolean;
  /** API and worker as two processes instead of one. */
  split: boolean;
  /** With `split`: how many workers; 1 by default. */
  workers?: number;
  /** How many processes answer requests in turn: APIs with `split`, else processes of `all`. 1 by default. */
  apis?: number;
  /** Settings of the service other than its defaults. */
  settings?: Record<string, string>;
  /** Added to the command line of Redis, if the benchmark starts it. */
  redisArgs?: readonly string[];
  /** The folder for CPU profiles of the service's processes. */
  profileDir?: string | undefined;
  /** Process ids of the servers of REDIS_URL and TEMPORAL_ADDRESS, whose usage is counted too. */
  givenPids: Pids;
}

/** The measured service with its servers. */
export interface Stack {
  /** The URL of the first process that answers requests. */
  baseUrl: string;
  /** The URLs of all of them. */
  baseUrls: string[];
  /** The URL of the first one's metrics. */
  adminUrl: string;
  redisUrl: string;
  temporalAddress: string;
  taskQueue: string;
  db: Db;
  secretBox: SecretBox;
  pids: Pids;
  /** The folder of the servers' data, a folder for each. */
  dataDir: string;
  /** Kills one of the service's processes with SIGKILL, by its name in `pids`; resolves once its replacement is ready. */
  kill(name: string): Promise<void>;
  /** Runs an operator command. @throws if it is refused */
  operate(...command: string[]): Promise<void>;
  stop(): Promise<void>;
}

/**
 * Starts the service as it ships (`dist/`, default durability, log to a file), with its own servers or those
 * that the environment names.
 */
export async function startStack(options: StackOptions): Promise<Stack> {
  const main = join(projectDir, 'dist/src/main.js');
  if (!existsSync(main)) throw new Error('dist/ is missing: run `npm run build` first');
  const dir = await createDataFolder();
  const started = stopList();
  started.add({ stop: () => rm(dir, { recursive: true, force: true }) });
  try {
    const servers = await (options.production ? startProductionServers : startServers)(
      dir,
      options.redisArgs ?? [],
    );
    started.add(servers);
    const { redis, temporal } = servers;

    const workers = options.split ? (options.workers ?? 1) : 0;
    const freePorts = (count: number) => Promise.all(Array.from({ length: count }, () => freePort()));
    const ports = await freePorts(options.production ? 2 : (options.apis ?? 1));
    const adminPorts = await freePorts(ports.length);
    const workerAdminPorts = await freePorts(workers);
    const env = {
      ...process.env,
      NODE_ENV: 'production',
      REDIS_URL: redis?.url ?? process.env.REDIS_URL,
      TEMPORAL_ADDRESS: temporal?.address ?? process.env.TEMPORAL_ADDRESS,
      KEY_PREFIX: redis ? '' : `bench-${randomBytes(4).toString('hex')}:`,
      TASK_QUEUE: temporal ? 'notifications' : `bench-${randomBytes(4).toString('hex')}`,
      SECRETS_KEY: `bench:${randomBytes(32).toString('base64')}`,
      ALLOW_HTTP_TARGETS: 'true',
      ALLOWED_TARGET_CIDRS: '127.0.0.0/8',
      OWN_PORTS: [...ports, ...adminPorts, ...workerAdminPorts, redis?.port, temporal?.port]
        .filter(Boolean)
        .join(','),
      // Each request is still checked against the limits.
      TOKEN_RATE_PER_SECOND: '1000000',
      ACCOUNT_RATE_PER_SECOND: '1000000',
      ...(options.production ? { TRUSTED_PROXIES: '127.0.0.0/8' } : {}),
      ...options.settings,
    };
    const config = readConfig(env);
    const log = createLogger('warn', 'bench');
    const db = openDb({ url: config.REDIS_URL, prefix: config.KEY_PREFIX, log, commandTimeoutMs: 10_000 });
    started.add({ stop: async () => void (await db.redis.quit()) });
    await waitForRedis(db, 10_000);

    const pids: Record<string, number> = {};
    const kills = new Map<string, () => Promise<void>>();
    const start = async (name: string, role: string, url: string, own: NodeJS.ProcessEnv = {}) => {
      const begin = () => startService(main, name, role, dir, options.profileDir, { ...env, ...own });
      const ready = (one: Child) => waitUntilReady(one, () => answersOk(url), 30_000);
      let service = await begin();
      started.add({ stop: () => service.stop(60_000) });
      kills.set(name, async () => {
        process.kill(service.pid, 'SIGKILL');
        await service.exited;
        service = await begin();
        await ready(service);
      });
      pids[name] = service.pid;
      await ready(service);
    };
    const nameOf = (kind: string, i: number, count: number) => (count === 1 ? kind : `${kind} ${i + 1}`);
    for (const [i, workerAdminPort] of workerAdminPorts.entries()) {
      const url = `http://127.0.0.1:${workerAdminPort}/healthz`;
      await start(nameOf('worker', i, workers), 'worker', url, { ADMIN_PORT: String(workerAdminPort) });
    }
    for (const [i, port] of ports.entries()) {
      const own = { PORT: String(port), ADMIN_PORT: String(adminPorts[i]) };
      const [kind, role] = options.split ? ['api', 'api'] : ['service', 'all'];
      await start(nameOf(kind, i, ports.length), role, `http://127.0.0.1:${port}/readyz`, own);
    }
    const [one = 0, other = 0] = ports;
    const balancerUrl = await servers.balance?.([one, other]);
    Object.assign(pids, servers.pids);
    const baseUrls = balancerUrl ? [balancerUrl] : ports.map((port) => `http://127.0.0.1:${port}`);
    return {
      baseUrl: baseUrls[0] ?? '',
      baseUrls,
      adminUrl: `http://127.0.0.1:${adminPorts[0]}`,
      redisUrl: config.REDIS_URL,
      temporalAddress: config.TEMPORAL_ADDRESS,
      taskQueue: config.TASK_QUEUE,
      db,
      secretBox: createSecretBox(config.SECRETS_KEY),
      pids: { ...pids, ...options.givenPids },
      dataDir: dir,
      async kill(name) {
        const one = kills.get(name);
        if (one === undefined) throw new Error(`there is no process ${name}`);
        await one();
      },
      async operate(...command) {
        const operator = join(projectDir, 'dist/src/operator/main.js');
        await promisify(execFile)(process.execPath, [operator, ...command], { env, cwd: projectDir });
      },
      stop: started.stop,
    };
  } catch (err) {
    await started.stop();
    throw err;
  }
}

function startService(
  main: string,
  name: string,
  role: string,
  dir: string,
  profileDir: string | undefined,
  env: NodeJS.ProcessEnv,
): Promise<Child> {
  const profiling = profileDir === undefined ? [] : ['--cpu-prof', `--cpu-prof-dir=${profileDir}`];
  return startChild({
    name,
    command: process.execPath,
    args: [...nodeFlags, ...profiling, main, role],
    logFile: join(dir, `${name}.log`),
    env,
    cwd: projectDir,
  });
}
