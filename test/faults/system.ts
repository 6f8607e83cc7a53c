import { randomBytes } from 'node:crypto';
import { cp, mkdir, mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { answersOk } from '../../local/answersOk.js';
import { type Child, logTail, startChild, waitUntilReady } from '../../local/child.js';
import { nodeFlags } from '../../local/nodeFlags.js';
import { freePort } from '../../local/ports.js';
import { startRedis } from '../../local/redis.js';
import { partsOf } from '../../local/stack/parts.js';
import { chooseStackPorts, type PartName } from '../../local/stack/ports.js';
import { takesConnections } from '../../local/stack/postgresql.js';
import { findPostgresql, findPrograms } from '../../local/stack/programs.js';
import { startTemporal } from '../../local/temporal.js';
import { projectDir } from '../../src/operator/running/projectDir.js';
import { type Proxy as Line, startProxy } from '../proxy.js';
import { pause } from './pause.js';
import { createReceiver, type Receiver } from './receiver.js';

/** Parts of the production stack only: Temporal's store, Redis' replica, and the balancer that callers reach. */
type StackPart = 'postgresql' | 'replica' | 'balancer';
export type Part = 'redis' | 'temporal' | 'api' | 'api2' | 'worker' | 'worker2' | StackPart;

/**
 * With `npm run test:faults -- --stack` a system has the parts of `npm run stack`: Temporal's production server on PostgreSQL,
 * Redis with a replica, two processes of API and worker in one behind HAProxy.
 */
export const onStack = process.env.FAULT_STACK === '1';
const partsOfStack: readonly Part[] = [
  ...(['redis', 'replica', 'postgresql', 'temporal', 'api', 'api2', 'balancer'] as const),
];
/** The usual parts of a system. */
export const parts: readonly Part[] = onStack ? partsOfStack : ['redis', 'temporal', 'api', 'worker'];
/** Of one whose API and worker are one process. */
export const partsTogether: readonly Part[] = onStack ? partsOfStack : ['redis', 'temporal', 'api'];

/** The service as it ships, in separate processes, each of which can be killed and started again. */
export interface System {
  dir: string;
  apiUrl: string;
  apiUrlOf(part: 'api' | 'api2'): string;
  adminUrlOf(part: 'api' | 'api2'): string;
  redisUrl: string;
  temporalAddress: string;
  secretsKey: string;
  receiver: Receiver;
  /** Where notifications are sent to: the receiver, or the proxy before it. */
  receiverUrl: string;
  /** Between the service and the others, where the system has them. */
  proxies: { redis: Line; temporal: Line; receiver: Line } | undefined;
  start(part: Part): Promise<void>;
  /** SIGKILL; resolves when the process is gone. */
  kill(part: Part): Promise<void>;
  /** SIGTERM; resolves with how the process ended. */
  end(part: Part): Promise<string>;
  /** Its next start runs this build, whichever it was given. */
  useThisBuild(part: Part): void;
  pidOf(part: Part): number | undefined;
  logOf(part: Part): string;
  /** Processes that ended without being killed, with the end of their log. */
  brokenOff: string[];
  stop(): Promise<void>;
}

export interface SystemOptions {
  /** The service reaches Redis, Temporal and the receiver through proxies only. */
  proxied?: boolean;
  env?: Record<string, string>;
  /** Of one part alone. */
  envOf?: Partial<Record<Part, Record<string, string>>>;
  redisArgs?: readonly string[];
  temporalArgs?: readonly string[];
  /** API and worker are one process, the part `api`. */
  together?: boolean;
  /** The compiled service that a part runs, `dist` by default. */
  builds?: Partial<Record<Part, string>>;
}

/** Returns the folder of a server of development, else nothing. */
const ofServer = (part: Part): string => (part === 'redis' || part === 'temporal' ? part : '');

/** The longest a killed worker's attempt keeps its asset is this and 5 s. */
const attemptTimeoutSeconds = 2;

export async function createSystem(options: SystemOptions = {}): Promise<System> {
  // In the project folder: on a temporary file system a flush to disk may mean nothing.
  await mkdir(join(projectDir, '.data'), { recursive: true });
  const dir = await mkdtemp(join(projectDir, '.data', 'faults-'));
  // A copy: a build that is made meanwhile changes nothing here.
  await cp(join(projectDir, 'dist'), join(dir, 'dist'), { recursive: true });
  const stackPorts = await chooseStackPorts({ preferably: freePort, any: freePort }, dir);
  const ports: Record<Part | 'receiver', number> = {
    ...stackPorts.ports,
    temporal: stackPorts.temporal.FRONTEND_GRPC_PORT,
    api: await freePort(),
    api2: await freePort(),
    worker: await freePort(),
    worker2: await freePort(),
    receiver: await freePort(),
  };
  const adminPorts = { api: 0, api2: 0, worker: 0, worker2: 0 };
  for (const part of ['api', 'api2', 'worker', 'worker2'] as const) adminPorts[part] = await freePort();
  const redisUrl = `redis://127.0.0.1:${ports.redis}`;
  const temporalAddress = `127.0.0.1:${ports.temporal}`;
  const secretsKey = `faults:${randomBytes(32).toString('base64')}`;
  const receiver = createReceiver(ports.receiver);
  const proxies = options.proxied
    ? {
        redis: await startProxy(redisUrl),
        temporal: await startProxy(`tcp://${temporalAddress}`),
        receiver: await startProxy(receiver.url),
      }
    : undefined;
  const children = new Map<Part, Child>();
  const builds = new Map(Object.entries(options.builds ?? {}));
  const ended = new Set<Child>();
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
    ...(onStack ? { TRUSTED_PROXIES: '127.0.0.0/8' } : {}),
    RETRY_SCHEDULE_SECONDS: '0.5,1,2,4',
    PROBE_SCHEDULE_SECONDS: '0.5,1,2',
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

  async function startService(part: 'api' | 'api2' | 'worker' | 'worker2'): Promise<void> {
    const role = part.replace('2', '');
    const child = await startChild({
      name: part,
      command: process.execPath,
      args: [
        ...nodeFlags,
        join(builds.get(part) ?? join(dir, 'dist'), 'src/main.js'),
        options.together || onStack ? 'all' : role,
      ],
      logFile: join(dir, `${part}.log`),
      env: {
        ...environment,
        ...options.envOf?.[part],
        PORT: String(ports[part]),
        ADMIN_PORT: String(adminPorts[part]),
      },
      cwd: projectDir,
      onStart: onStart(part),
    });
    const url =
      role === 'api'
        ? `http://127.0.0.1:${ports[part]}/readyz`
        : `http://127.0.0.1:${adminPorts[part]}/healthz`;
    await waitUntilReady(child, () => answersOk(url), 120_000);
  }

  const stack = onStack
    ? partsOf({
        dir,
        config: { TEMPORAL_NAMESPACE: 'default' },
        programs: await findPrograms((line) => console.log(line)),
        ports: {
          ...stackPorts,
          ports: { ...stackPorts.ports, 'service-1': ports.api, 'service-2': ports.api2 },
        },
        onStart: (child) => onStart(child.name as Part)(child),
        redisArgs: options.redisArgs ?? [],
        say: (line) => console.log(line),
      })
    : undefined;

  /** As in docker-compose.yml, the first start of the service waits until the namespace exists. */
  let namespaceMade: () => void = () => undefined;
  const hasNamespace = new Promise<void>((resolve) => {
    namespaceMade = resolve;
  });

  /** Waits for PostgreSQL, because both may be started at the same time. */
  async function postgresqlAnswers(): Promise<void> {
    const bin = findPostgresql() ?? '';
    while (!(await takesConnections(bin, ports.postgresql))) await pause(100);
  }

  function running(part: Part): Child | undefined {
    const child = children.get(part);
    return child?.ended === undefined ? child : undefined;
  }

  return {
    dir,
    apiUrl: `http://127.0.0.1:${onStack ? ports.balancer : ports.api}`,
    apiUrlOf: (part) => `http://127.0.0.1:${ports[part]}`,
    adminUrlOf: (part) => `http://127.0.0.1:${adminPorts[part]}`,
    redisUrl,
    temporalAddress,
    secretsKey,
    receiver,
    receiverUrl: proxies ? `http://127.0.0.1:${proxies.receiver.port}` : receiver.url,
    proxies,
    brokenOff,
    async start(part) {
      if (stack && part in stack) {
        if (part === 'temporal') await postgresqlAnswers();
        await stack[part as PartName]();
        if (part === 'temporal') namespaceMade();
        return;
      }
      switch (part) {
        case 'redis': {
          const redisDir = join(dir, 'redis');
          const args = options.redisArgs ?? [];
          await startRedis({ dir: redisDir, port: ports.redis, args, onStart: onStart(part) });
          return;
        }
        case 'temporal':
          await startTemporal({
            ...{ dir: join(dir, 'temporal'), port: ports.temporal, onStart: onStart(part) },
            args: options.temporalArgs ?? [],
          });
          return;
        case 'api':
        case 'api2':
          if (stack) await hasNamespace;
          return startService(part);
        case 'worker':
        case 'worker2':
          return startService(part);
        default:
          throw new Error(`${part} exists only on the stack`);
      }
    },
    async kill(part) {
      const child = running(part);
      if (child === undefined) return;
      ended.add(child);
      process.kill(child.pid, 'SIGKILL');
      await child.exited;
    },
    async end(part) {
      const child = running(part);
      if (child === undefined) return 'it did not run';
      ended.add(child);
      await child.stop(30_000);
      return child.ended ?? '';
    },
    useThisBuild: (part) => void builds.delete(part),
    pidOf: (part) => running(part)?.pid,
    logOf: (part) => join(dir, onStack && !part.startsWith('api') ? 'logs' : ofServer(part), `${part}.log`),
    async stop() {
      for (const part of [...children.keys()].reverse()) {
        const child = running(part);
        if (child === undefined) continue;
        ended.add(child);
        await child.stop(15_000);
      }
      await receiver.breakOff();
      if (proxies) await Promise.all(Object.values(proxies).map((proxy) => proxy.close()));
      await rm(dir, { recursive: true, force: true });
    },
  };
}
