import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { answersOk, type Child, startChild, waitUntilReady } from '../local/child.js';
import { nodeFlags } from '../local/nodeFlags.js';
import { freePort } from '../local/ports.js';
import { startRedis } from '../local/redis.js';
import { startTemporal } from '../local/temporal.js';
import { readConfig, redisOptions } from '../src/config.js';
import { createLogger } from '../src/log.js';
import { projectDir } from '../src/operator/npmStart.js';
import { type Db, openDb, waitForRedis } from '../src/redis/connection/db.js';
import { createSecretBox, type SecretBox } from '../src/redis/records/secretBox.js';
import type { Pids } from './processUsage.js';

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
  /** Starts each process, by default once; `start` may be called again after its end. */
  run?: (name: string, start: () => Promise<Child>) => Promise<Child>;
  /** Settings of the service beside those of a benchmark. */
  env?: Record<string, string>;
  /** Process ids of the servers of REDIS_URL and TEMPORAL_ADDRESS, whose usage is counted too. */
  givenPids: Pids;
}

/** The measured service with its servers. */
export interface Stack {
  /** The URL of the first process that answers requests. */
  baseUrl: string;
  /** The operators' port of the same process. */
  adminUrl: string;
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
  const stops: (() => Promise<unknown>)[] = [() => rm(dir, { recursive: true, force: true })];
  const stop = async () => {
    for (const one of stops.splice(0).reverse()) await one();
  };
  const pids: Record<string, number> = { ...options.givenPids };
  const run = async (name: string, start: () => Promise<Child>, graceMs?: number) => {
    const child = await (options.run ?? ((_, once) => once()))(name, start);
    stops.push(() => child.stop(graceMs));
    pids[name] = child.pid;
  };
  try {
    const redis = process.env.REDIS_URL ? undefined : { dir: join(dir, 'redis'), port: await freePort() };
    if (redis) await run('redis', async () => (await startRedis(redis)).child);
    const temporal = process.env.TEMPORAL_ADDRESS
      ? undefined
      : { dir: join(dir, 'temporal'), port: await freePort() };
    if (temporal) await run('temporal', async () => (await startTemporal(temporal)).child);

    const services = await planServices(options);
    const ports = services.flatMap(({ port, adminPort }) => (port ? [port, adminPort] : [adminPort]));
    const env = {
      ...process.env,
      NODE_ENV: 'production',
      REDIS_URL: redis ? `redis://127.0.0.1:${redis.port}` : process.env.REDIS_URL,
      TEMPORAL_ADDRESS: temporal ? `127.0.0.1:${temporal.port}` : process.env.TEMPORAL_ADDRESS,
      KEY_PREFIX: redis ? '' : `bench-${randomBytes(4).toString('hex')}:`,
      TASK_QUEUE: temporal ? 'notifications' : `bench-${randomBytes(4).toString('hex')}`,
      SECRETS_KEY: `bench:${randomBytes(32).toString('base64')}`,
      ALLOW_HTTP_TARGETS: 'true',
      ALLOWED_TARGET_CIDRS: '127.0.0.0/8',
      OWN_PORTS: [...ports, redis?.port, temporal?.port].filter(Boolean).join(','),
      // No token ends within a run.
      ACCESS_TOKEN_TTL_SECONDS: '86400',
      // Each request is still checked against the limits.
      ...(!options.defaultLimits && { TOKEN_RATE_PER_SECOND: '1000000', ACCOUNT_RATE_PER_SECOND: '1000000' }),
      ...options.env,
    };
    const config = readConfig(env);
    const log = createLogger('warn', 'bench');
    const db = openDb({ ...redisOptions(config), log, commandTimeoutMs: 10_000 });
    stops.push(() => db.redis.quit());
    await waitForRedis(db, 10_000);

    const { profileDir } = options;
    const profiling = profileDir === undefined ? [] : ['--cpu-prof', `--cpu-prof-dir=${profileDir}`];
    for (const { name, role, port, adminPort } of services) {
      const start = async () => {
        const child = await startChild({
          name,
          command: process.execPath,
          args: [...nodeFlags, ...profiling, main, role],
          logFile: join(dir, `${name}.log`),
          env: { ...env, ADMIN_PORT: String(adminPort), ...(port && { PORT: String(port) }) },
          cwd: projectDir,
        });
        await waitUntilReady(child, () => answersOk(`http://127.0.0.1:${adminPort}/readyz`), 30_000);
        return child;
      };
      await run(name, start, 60_000);
    }
    const baseUrls = services.flatMap(({ port }) => (port ? [`http://127.0.0.1:${port}`] : []));
    const [baseUrl = ''] = baseUrls;
    const secretBox = createSecretBox(config.SECRETS_KEY);
    const adminUrl = `http://127.0.0.1:${services.find(({ port }) => port)?.adminPort}`;
    return { baseUrl, adminUrl, baseUrls, redisUrl: config.REDIS_URL, db, secretBox, pids, stop };
  } catch (err) {
    await stop();
    throw err;
  }
}

/** Names the processes of the service, with a free port for each of their doors: workers first. */
async function planServices({ split, workers = 1, apis = 1 }: StackOptions) {
  const named = (role: 'api' | 'worker' | 'all', count: number) =>
    Array.from({ length: count }, async (_, i) => ({
      name: count === 1 ? role : `${role} ${i + 1}`,
      role,
      port: role === 'worker' ? undefined : await freePort(),
      adminPort: await freePort(),
    }));
  return Promise.all(split ? [...named('worker', workers), ...named('api', apis)] : named('all', apis));
}
