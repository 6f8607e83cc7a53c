import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { type Child, logTail, startChild, waitUntilReady } from '../../src/embedded/child.js';
import { projectDir } from '../../src/embedded/projectDir.js';
import { startRedis } from '../../src/embedded/redis.js';
import { startTemporal } from '../../src/embedded/temporal.js';
import { createReceiver, type Receiver } from './receiver.js';
import { steadyPort } from './steadyPort.js';

export type Part = 'redis' | 'temporal' | 'api' | 'worker';
export const parts: readonly Part[] = ['redis', 'temporal', 'api', 'worker'];

/** The service as it ships, in processes of its own, each of which can be killed and started again. */
export interface System {
  apiUrl: string;
  redisUrl: string;
  secretsKey: string;
  receiver: Receiver;
  start(part: Part): Promise<void>;
  /** SIGKILL; resolves when the process is gone. */
  kill(part: Part): Promise<void>;
  /** What ended without having been killed, with the end of its log. */
  brokenOff: string[];
  stop(): Promise<void>;
}

/** The longest a killed worker's attempt keeps its asset is this and 5 s. */
const attemptTimeoutSeconds = 2;

export async function createSystem(): Promise<System> {
  // In the project folder: on a temporary file system a flush to disk may mean nothing.
  const dir = await mkdtemp(join(projectDir, '.data', 'faults-'));
  const ports: Record<Part | 'apiAdmin' | 'workerAdmin' | 'receiver', number> = {
    redis: await steadyPort(),
    temporal: await steadyPort(),
    api: await steadyPort(),
    worker: await steadyPort(),
    apiAdmin: await steadyPort(),
    workerAdmin: await steadyPort(),
    receiver: await steadyPort(),
  };
  const redisUrl = `redis://127.0.0.1:${ports.redis}`;
  const secretsKey = `faults:${randomBytes(32).toString('base64')}`;
  const receiver = createReceiver(ports.receiver);
  const children = new Map<Part, Child>();
  const killed = new Set<Child>();
  const brokenOff: string[] = [];

  const environment = {
    ...process.env,
    NODE_ENV: 'production',
    REDIS_URL: redisUrl,
    TEMPORAL_ADDRESS: `127.0.0.1:${ports.temporal}`,
    KEY_PREFIX: '',
    TASK_QUEUE: 'notifications',
    SECRETS_KEY: secretsKey,
    ALLOW_HTTP_TARGETS: 'true',
    ALLOWED_TARGET_CIDRS: '127.0.0.0/8',
    OWN_PORTS: [ports.redis, ports.temporal, ports.api, ports.apiAdmin, ports.workerAdmin].join(','),
    RETRY_SCHEDULE_SECONDS: '0.5,1,2,4',
    PROBE_SCHEDULE_SECONDS: '0.5,1,2',
    ATTEMPT_TIMEOUT_SECONDS: String(attemptTimeoutSeconds),
    LOG_LEVEL: 'warn',
  };

  const onStart = (part: Part) => (child: Child) => {
    children.set(part, child);
    void child.exited.then((how) => {
      if (!killed.has(child)) brokenOff.push(`${part} ended: ${how}\n${logTail(child.logFile)}`);
    });
  };

  async function startService(part: 'api' | 'worker'): Promise<void> {
    const adminPort = part === 'api' ? ports.apiAdmin : ports.workerAdmin;
    const child = await startChild({
      name: part,
      command: process.execPath,
      args: [join(projectDir, 'dist/src/main.js'), part],
      logFile: join(dir, `${part}.log`),
      env: { ...environment, PORT: String(ports[part]), ADMIN_PORT: String(adminPort) },
      cwd: projectDir,
      onStart: onStart(part),
    });
    const url =
      part === 'api' ? `http://127.0.0.1:${ports.api}/readyz` : `http://127.0.0.1:${adminPort}/healthz`;
    await waitUntilReady(child, () => answersOk(url), 60_000);
  }

  return {
    apiUrl: `http://127.0.0.1:${ports.api}`,
    redisUrl,
    secretsKey,
    receiver,
    brokenOff,
    async start(part) {
      switch (part) {
        case 'redis':
          await startRedis({ dir: join(dir, 'redis'), port: ports.redis, onStart: onStart(part) });
          return;
        case 'temporal':
          await startTemporal({ dir: join(dir, 'temporal'), port: ports.temporal, onStart: onStart(part) });
          return;
        case 'api':
        case 'worker':
          return startService(part);
      }
    },
    async kill(part) {
      const child = children.get(part);
      if (child === undefined || child.ended !== undefined) return;
      killed.add(child);
      process.kill(child.pid, 'SIGKILL');
      await child.exited;
    },
    async stop() {
      for (const part of [...parts].reverse()) {
        const child = children.get(part);
        if (child === undefined) continue;
        killed.add(child);
        await child.stop(15_000);
      }
      await receiver.breakOff();
      await rm(dir, { recursive: true, force: true });
    },
  };
}

async function answersOk(url: string): Promise<boolean> {
  try {
    const response = await fetch(url, { signal: AbortSignal.timeout(2000) });
    await response.body?.cancel();
    return response.ok;
  } catch {
    return false;
  }
}
