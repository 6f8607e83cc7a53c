import { randomBytes } from 'node:crypto';
import { cp, mkdir, mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { answersOk, type Child, logTail, startChild, waitUntilReady } from '../../local/child.js';
import { nodeFlags } from '../../local/nodeFlags.js';
import { freePort } from '../../local/ports.js';
import { startRedis } from '../../local/redis.js';
import { startTemporal } from '../../local/temporal.js';
import { projectDir } from '../../src/operator/npmStart.js';
import { startProxy } from '../proxy.js';
import { prepareProductionServers } from '../stack/productionServers.js';
import { createReceiver } from './receiver.js';

/** PostgreSQL only with `FAULT_STACK=1`. */
export type Part = 'redis' | 'postgresql' | 'temporal' | 'api' | 'api2' | 'worker' | 'worker2';

/** With `npm run test:stack` Temporal is the production server on PostgreSQL instead of the server of development. */
export const onStack = process.env.FAULT_STACK === '1';
export const servers: readonly Part[] = onStack ? ['redis', 'postgresql', 'temporal'] : ['redis', 'temporal'];
/** The usual parts of a system. */
export const parts: readonly Part[] = [...servers, 'api', 'worker'];
/** Of one whose API and worker are one process. */
export const partsTogether: readonly Part[] = [...servers, 'api'];

/** The service as it ships, in separate processes, each of which can be killed and started again. */
export type System = Awaited<ReturnType<typeof createSystem>>;

export interface SystemOptions {
  /** The service reaches Redis, Temporal and the receiver through proxies only. */
  proxied?: boolean;
  env?: Record<string, string>;
  redisArgs?: readonly string[];
  redisEnv?: NodeJS.ProcessEnv;
  /** API and worker are one process, the part `api`. */
  together?: boolean;
}

/** A process with it probes failing endpoints sooner, and lists fewer notifications if FAULT_LISTED_AT_MOST says so. */
const scale = join(projectDir, 'test/faults/scale.mjs');

/** The longest a killed worker's attempt keeps its asset is this and 5 s. */
const attemptTimeoutSeconds = 2;

export async function createSystem(options: SystemOptions = {}) {
  // In the project folder: on a temporary file system a flush to disk may mean nothing.
  await mkdir(join(projectDir, '.data'), { recursive: true });
  const dir = await mkdtemp(join(projectDir, '.data', 'faults-'));
  // A copy: a build that is made meanwhile changes nothing here.
  await cp(join(projectDir, 'dist'), join(dir, 'dist'), { recursive: true });
  const production = onStack ? await prepareProductionServers(dir) : undefined;
  const ports = { redis: 0, temporal: 0, api: 0, api2: 0, worker: 0, worker2: 0, receiver: 0 };
  const adminPorts = { api: 0, api2: 0, worker: 0, worker2: 0 };
  for (const all of [ports, adminPorts] as Record<string, number>[])
    for (const part of Object.keys(all)) all[part] = await freePort();
  if (production) ports.temporal = production.temporalPort;
  const redisUrl = `redis://127.0.0.1:${ports.redis}`;
  const temporalAddress = `127.0.0.1:${ports.temporal}`;
  const secretsKey = `faults:${randomBytes(32).toString('base64')}`;
  const receiver = createReceiver(ports.receiver);
  /** Between the service and the others, where the system has them. */
  const proxies = options.proxied
    ? {
        redis: await startProxy(redisUrl),
        temporal: await startProxy(`tcp://${temporalAddress}`),
        receiver: await startProxy(receiver.url),
      }
    : undefined;
  const children = new Map<Part, Child>();
  const ended = new Set<Child>();
  /** Processes that ended without being killed, with the end of their log. */
  const brokenOff: string[] = [];

  const environment = {
    ...process.env,
    NODE_ENV: 'production',
    REDIS_URL: proxies ? `redis://127.0.0.1:${proxies.redis.port}` : redisUrl,
    TEMPORAL_ADDRESS: proxies ? `127.0.0.1:${proxies.temporal.port}` : temporalAddress,
    KEY_PREFIX: '',
    TASK_QUEUE: 'notifications',
    SECRETS_KEY: secretsKey,
    ALLOW_HTTP_TARGETS: 'true',
    ALLOWED_TARGET_CIDRS: '127.0.0.0/8',
    OWN_PORTS: [ports.redis, ports.temporal, ports.api, ports.api2, ...Object.values(adminPorts)].join(','),
    ACCESS_TOKEN_TTL_SECONDS: '86400',
    RETRY_SCHEDULE_SECONDS: '0.5,1,2,4',
    // The registrar's clients are all of one account.
    ACCOUNT_RATE_PER_SECOND: '10000',
    ATTEMPT_TIMEOUT_SECONDS: String(attemptTimeoutSeconds),
    LOG_LEVEL: 'warn',
    ...options.env,
  };

  const onStart = (part: Part) => (child: Child) => {
    children.set(part, child);
    void child.exited.then((how) => {
      if (!ended.has(child)) brokenOff.push(`${part} ended: ${how}\n${logTail(child.logFile)}`);
    });
  };

  async function startService(part: 'api' | 'api2' | 'worker' | 'worker2', folder = dir): Promise<void> {
    const role = part.replace('2', '');
    const child = await startChild({
      name: part,
      command: process.execPath,
      args: [
        ...nodeFlags,
        `--import=${scale}`,
        join(folder, 'dist/src/main.js'),
        options.together ? 'all' : role,
      ],
      logFile: logOf(part),
      env: {
        ...environment,
        PORT: String(ports[part]),
        ADMIN_PORT: String(adminPorts[part]),
      },
      cwd: folder === dir ? projectDir : folder,
      onStart: onStart(part),
    });
    const url =
      role === 'api'
        ? `http://127.0.0.1:${ports[part]}/readyz`
        : `http://127.0.0.1:${adminPorts[part]}/healthz`;
    await waitUntilReady(child, () => answersOk(url), 120_000);
  }

  const logOf = (part: Part) => join(dir, `${part}.log`);

  function running(part: Part): Child | undefined {
    const child = children.get(part);
    return child?.ended === undefined ? child : undefined;
  }

  return {
    dir,
    redisUrl,
    temporalAddress,
    secretsKey,
    receiver,
    proxies,
    brokenOff,
    logOf,
    apiUrl: `http://127.0.0.1:${ports.api}`,
    apiUrlOf: (part: 'api' | 'api2') => `http://127.0.0.1:${ports[part]}`,
    adminUrlOf: (part: 'api' | 'api2') => `http://127.0.0.1:${adminPorts[part]}`,
    /** Where notifications are sent to: the receiver, or the proxy before it. */
    receiverUrl: proxies ? `http://127.0.0.1:${proxies.receiver.port}` : receiver.url,
    /** @param folder of another build of the service, which then runs */
    async start(part: Part, folder?: string): Promise<void> {
      switch (part) {
        case 'redis':
          await startRedis({
            dir: join(dir, 'redis'),
            port: ports.redis,
            args: options.redisArgs ?? [],
            env: options.redisEnv ?? {},
            logFile: logOf(part),
            onStart: onStart(part),
          });
          return;
        case 'postgresql':
          return production?.startPostgresql(logOf(part), onStart(part));
        case 'temporal':
          if (production) return production.startTemporal(logOf(part), onStart(part));
          await startTemporal({
            dir: join(dir, 'temporal'),
            port: ports.temporal,
            logFile: logOf(part),
            onStart: onStart(part),
          });
          return;
        case 'api':
        case 'api2':
        case 'worker':
        case 'worker2':
          // As in docker-compose.yml, the first start of the service waits until the namespace exists.
          await production?.hasNamespace;
          return startService(part, folder);
      }
    },
    /** SIGKILL; resolves when the process is gone. */
    async kill(part: Part): Promise<void> {
      const child = running(part);
      if (child === undefined) return;
      ended.add(child);
      process.kill(child.pid, 'SIGKILL');
      await child.exited;
    },
    /** SIGTERM; resolves with how the process ended. */
    async end(part: Part): Promise<string> {
      const child = running(part);
      if (child === undefined) return 'it did not run';
      ended.add(child);
      await child.stop(30_000);
      return child.ended ?? '';
    },
    pidOf: (part: Part) => running(part)?.pid,
    async stop(): Promise<void> {
      for (const part of [...children.keys()].reverse()) {
        const child = running(part);
        if (child === undefined) continue;
        ended.add(child);
        await child.stop(15_000);
      }
      await receiver.breakOff();
      if (proxies) await Promise.all(Object.values(proxies).map((proxy) => proxy.close()));
      await rm(dir, { recursive: true, force: true });
      await production?.remove();
    },
  };
}
