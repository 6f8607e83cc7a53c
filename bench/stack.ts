import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { request } from 'undici';
import { readConfig } from '../src/config.js';
import { type Child, startChild, waitUntilReady } from '../src/embedded/child.js';
import { freePort } from '../src/embedded/ports.js';
import { projectDir } from '../src/embedded/projectDir.js';
import { startRedis } from '../src/embedded/redis.js';
import { startTemporal } from '../src/embedded/temporal.js';
import { createLogger } from '../src/log.js';
import { type Db, openDb, waitForRedis } from '../src/store/db.js';
import { createSecretBox, type SecretBox } from '../src/store/secretBox.js';
import type { Pids } from './processUsage.js';

export interface StackOptions {
  /** API and worker as two processes instead of one. */
  split: boolean;
  /** Where the service's processes leave their CPU profiles. */
  profileDir?: string | undefined;
  /** Servers given by REDIS_URL and TEMPORAL_ADDRESS are counted by the ids named here. */
  givenPids: Pids;
}

/** What is measured: the service with its two servers. */
export interface Stack {
  baseUrl: string;
  redisUrl: string;
  db: Db;
  secretBox: SecretBox;
  pids: Pids;
  stop(): Promise<void>;
}

/**
 * Starts the service as it ships (`dist/`, default durability, log to a file), beside servers of its own or those
 * that the environment names. The data lies in the project folder: on a temporary file system a flush to disk
 * would cost nothing.
 */
export async function startStack(options: StackOptions): Promise<Stack> {
  const main = join(projectDir, 'dist/src/main.js');
  if (!existsSync(main)) throw new Error('dist/ is missing: run `npm run build` first');
  const dir = join(projectDir, '.data', `bench-${process.pid}`);
  await mkdir(dir, { recursive: true });
  const stops: (() => Promise<void>)[] = [() => rm(dir, { recursive: true, force: true })];
  const stop = async () => {
    for (const stopOne of stops.reverse()) await stopOne();
    stops.length = 0;
  };
  try {
    const redis = process.env.REDIS_URL ? undefined : await startRedis({ dir: join(dir, 'redis') });
    if (redis) stops.push(() => redis.stop());
    const temporal = process.env.TEMPORAL_ADDRESS
      ? undefined
      : await startTemporal({ dir: join(dir, 'temporal') });
    if (temporal) stops.push(() => temporal.stop());

    const [port, adminPort, workerAdminPort] = await Promise.all([freePort(), freePort(), freePort()]);
    const env = {
      ...process.env,
      NODE_ENV: 'production',
      PORT: String(port),
      ADMIN_PORT: String(adminPort),
      REDIS_URL: process.env.REDIS_URL ?? redis?.url,
      TEMPORAL_ADDRESS: process.env.TEMPORAL_ADDRESS ?? temporal?.address,
      KEY_PREFIX: redis ? '' : `bench-${randomBytes(4).toString('hex')}:`,
      TASK_QUEUE: temporal ? 'notifications' : `bench-${randomBytes(4).toString('hex')}`,
      SECRETS_KEY: `bench:${randomBytes(32).toString('base64')}`,
      ALLOW_HTTP_TARGETS: 'true',
      ALLOWED_TARGET_CIDRS: '127.0.0.0/8',
      OWN_PORTS: [port, adminPort, workerAdminPort, redis?.port, temporal?.port].filter(Boolean).join(','),
      // The limit is looked at on every request all the same.
      TOKEN_RATE_PER_SECOND: '1000000',
    };
    const config = readConfig(env);
    const log = createLogger('warn', 'bench');
    const db = openDb({ url: config.REDIS_URL, prefix: config.KEY_PREFIX, log, commandTimeoutMs: 10_000 });
    stops.push(async () => {
      await db.redis.quit();
    });
    await waitForRedis(db, 10_000);

    const pids: Record<string, number> = {};
    for (const role of options.split ? (['worker', 'api'] as const) : (['all'] as const)) {
      const service = await startService(main, role, dir, options.profileDir, {
        ...env,
        ...(role === 'worker' ? { ADMIN_PORT: String(workerAdminPort) } : {}),
      });
      stops.push(() => service.stop(60_000));
      pids[role === 'all' ? 'service' : role] = service.pid;
      const url =
        role === 'worker' ? `http://127.0.0.1:${workerAdminPort}/healthz` : `http://127.0.0.1:${port}/readyz`;
      await waitUntilReady(service, () => answersOk(url), 30_000);
    }
    if (temporal) pids.temporal = temporal.pid;
    if (redis) pids.redis = redis.pid;
    return {
      baseUrl: `http://127.0.0.1:${port}`,
      redisUrl: config.REDIS_URL,
      db,
      secretBox: createSecretBox(config.SECRETS_KEY),
      pids: { ...pids, ...options.givenPids },
      stop,
    };
  } catch (err) {
    await stop();
    throw err;
  }
}

function startService(
  main: string,
  role: string,
  dir: string,
  profileDir: string | undefined,
  env: NodeJS.ProcessEnv,
): Promise<Child> {
  const profiling = profileDir === undefined ? [] : ['--cpu-prof', `--cpu-prof-dir=${profileDir}`];
  return startChild({
    name: role,
    command: process.execPath,
    args: [...profiling, main, role],
    logFile: join(dir, `${role}.log`),
    env,
    cwd: projectDir,
  });
}

async function answersOk(url: string): Promise<boolean> {
  try {
    const { statusCode, body } = await request(url);
    await body.dump();
    return statusCode === 200;
  } catch {
    return false;
  }
}
