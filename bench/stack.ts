import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { answersOk, type Child, startChild, waitUntilReady } from '../local/child.js';
import { nodeFlags } from '../local/nodeFlags.js';
import { freePort } from '../local/ports.js';
import { type RedisServer, startRedis } from '../local/redis.js';
import { startTemporal, type TemporalServer } from '../local/temporal.js';
import { readConfig, redisOptions } from '../src/config.js';
import { createLogger } from '../src/log.js';
import { projectDir } from '../src/operator/npmStart.js';
import { type Db, openDb, waitForRedis } from '../src/redis/connection/db.js';
import { createSecretBox, type SecretBox } from '../src/redis/records/secretBox.js';
import type { Pids } from './processUsage.js';
import { type StopList, stopList } from './stopList.js';

export interface StackOptions {
  /** API and worker as two processes instead of one. */
  split: boolean;
  /** With `split`: how many workers; 1 by default. */
  workers?: number;
  /** How many processes answer requests in turn: APIs with `split`, else processes of `all`. 1 by default. */
  apis?: number;
  /** The folder for CPU profiles of the service's processes. */
  profileDir?: string;
  /** The limits on calls as they are by default; else none is reached. */
  defaultLimits?: boolean;
  /** Process ids of the servers of REDIS_URL and TEMPORAL_ADDRESS, whose usage is counted too. */
  givenPids: Pids;
}

/** The measured service with its servers. */
export interface Stack {
  /** The URL of the first process that answers requests. */
  baseUrl: string;
  /** The URLs of all of them. */
  baseUrls: string[];
  redisUrl: string;
  db: Db;
  secretBox: SecretBox;
  pids: Pids;
  stop(): Promise<void>;
}

/**
 * Starts the service as it ships (`dist/`, default durability, log to a file), with its own servers or those
 * that the environment names.
 */
export async function startStack(options: StackOptions): Promise<Stack> {
  const main = join(projectDir, 'dist/src/main.js');
  if (!existsSync(main)) throw new Error('dist/ is missing: run `npm run build` first');
  // On the project's disk: on a temporary file system a flush would cost nothing.
  const dataDir = join(projectDir, '.data');
  await mkdir(dataDir, { recursive: true });
  const dir = await mkdtemp(join(dataDir, `bench-${process.pid}-`));
  const started = stopList();
  started.add({ stop: () => rm(dir, { recursive: true, force: true }) });
  try {
    const { redis, temporal } = await startServers(dir, started);

    const workers = options.split ? (options.workers ?? 1) : 0;
    const freePorts = (count: number) => Promise.all(Array.from({ length: count }, () => freePort()));
    const ports = await freePorts(options.apis ?? 1);
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
      ...(!options.defaultLimits && { TOKEN_RATE_PER_SECOND: '1000000', ACCOUNT_RATE_PER_SECOND: '1000000' }),
    };
    const config = readConfig(env);
    const log = createLogger('warn', 'bench');
    const db = openDb({ ...redisOptions(config), log, commandTimeoutMs: 10_000 });
    started.add({ stop: async () => void (await db.redis.quit()) });
    await waitForRedis(db, 10_000);

    const pids: Record<string, number> = {};
    const start = async (name: string, role: string, url: string, own: NodeJS.ProcessEnv = {}) => {
      const service = await startService(main, name, role, dir, options.profileDir, { ...env, ...own });
      started.add({ stop: () => service.stop(60_000) });
      pids[name] = service.pid;
      await waitUntilReady(service, () => answersOk(url), 30_000);
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
    if (temporal) pids.temporal = temporal.pid;
    if (redis) pids.redis = redis.pid;
    const baseUrls = ports.map((port) => `http://127.0.0.1:${port}`);
    return {
      baseUrl: baseUrls[0] ?? '',
      baseUrls,
      redisUrl: config.REDIS_URL,
      db,
      secretBox: createSecretBox(config.SECRETS_KEY),
      pids: { ...pids, ...options.givenPids },
      stop: started.stop,
    };
  } catch (err) {
    await started.stop();
    throw err;
  }
}

/** Starts the servers of development, unless REDIS_URL and TEMPORAL_ADDRESS name others. */
async function startServers(
  dir: string,
  started: StopList,
): Promise<{ redis: RedisServer | undefined; temporal: TemporalServer | undefined }> {
  const redis = process.env.REDIS_URL ? undefined : await startRedis({ dir: join(dir, 'redis') });
  if (redis) started.add(redis);
  const temporal = process.env.TEMPORAL_ADDRESS
    ? undefined
    : await startTemporal({ dir: join(dir, 'temporal') });
  if (temporal) started.add(temporal);
  return { redis, temporal };
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
