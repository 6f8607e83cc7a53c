/** Programs in processes of their own, with everything they said kept. */
import { type ChildProcess, spawn } from 'node:child_process';
import { join } from 'node:path';
import { freePort } from '../local/ports.js';
import type { Role } from '../src/compose.js';
import { watchAnswers } from './api/reference/watchAnswers.js';
import { until } from './receiver.js';
import { secretsKey, servers, uniquePrefix } from './servers.js';

export type Program = ReturnType<typeof startProgram>;

/** What a test that failed has left ends with the tests. */
const running = new Set<ChildProcess>();
process.once('exit', () => {
  for (const child of running) child.kill('SIGKILL');
});

/** Does something while a process is stopped and answers nothing. */
export async function whileStopped<T>(pid: number, work: () => Promise<T>): Promise<T> {
  process.kill(pid, 'SIGSTOP');
  try {
    return await work();
  } finally {
    process.kill(pid, 'SIGCONT');
  }
}

/** @param env all of its environment beside PATH */
export function startProgram(
  command: string,
  args: readonly string[],
  { env = {}, cwd }: { env?: NodeJS.ProcessEnv; cwd?: string } = {},
) {
  const child = spawn(command, args, {
    ...(cwd !== undefined && { cwd }),
    env: { PATH: process.env.PATH, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  running.add(child);
  child.once('close', () => running.delete(child));
  let said = '';
  const program = {
    stdout: '',
    stderr: '',
    said: () => said,
    ended: new Promise<number | null>((resolve) => child.once('close', resolve)),
    /** Ends it as an orchestrator does, or by Ctrl-C. Resolves with its exit code. */
    stop(signal: 'SIGTERM' | 'SIGINT' | 'SIGKILL' = 'SIGTERM'): Promise<number | null> {
      child.kill(signal);
      return program.ended;
    },
    signal: (signal: 'SIGSTOP' | 'SIGCONT') => child.kill(signal),
    /** Waits until it has said this: its log may be behind its answers. */
    says: (words: RegExp) => program.until(`it says ${words}`, async () => words.test(said)),
    /** Waits until it answers. @throws with what it said if it ends before */
    async until(what: string, look: () => Promise<unknown>): Promise<void> {
      try {
        await until(
          what,
          async () => {
            if (child.exitCode !== null) throw new Error(`it ended: ${said}`);
            return Boolean(await look().catch(() => false));
          },
          60_000,
        );
      } catch (err) {
        child.kill('SIGKILL');
        throw err;
      }
    },
  };
  for (const name of ['stdout', 'stderr'] as const) {
    child[name].setEncoding('utf8').on('data', (text: string) => {
      said += text;
      program[name] += text;
    });
  }
  return program;
}

export interface Service extends Program {
  url: string;
  adminUrl: string;
  prefix: string;
  taskQueue: string;
  secretsKey: string;
  metrics(): Promise<string>;
}

interface Launched {
  /** Where the service is, built. */
  folder?: string;
  /** Runs it there if it is given the role. */
  command?: readonly string[];
}

export const built = [process.execPath, 'dist/src/main.js'] as const;

/** `node dist/src/main.js <role>`, ready; `npm test` has built it before. */
export async function startService(env: Record<string, string> = {}, role: Role = 'all', how: Launched = {}) {
  const service = await beginService(env, role, how);
  const at = role === 'worker' ? service.adminUrl : service.url;
  await service.until('the service is ready', async () => (await fetch(`${at}/readyz`)).ok);
  return service;
}

/** What a service says that ends instead of being ready. Never rejects. */
export const refusalOf = (env: Record<string, string>): Promise<string> =>
  startService(env).then(
    (service) => service.stop().then(() => 'it started'),
    (err: Error) => err.message,
  );

/** As `startService`, ready or not. */
export async function beginService(
  env: Record<string, string> = {},
  role: Role = 'all',
  { folder = join(import.meta.dirname, '..'), command = built }: Launched = {},
): Promise<Service> {
  const { KEY_PREFIX: prefix = uniquePrefix(), TASK_QUEUE: taskQueue = `${prefix}queue` } = env;
  const { PORT: port = await freePort(), ADMIN_PORT: adminPort = await freePort() } = env;
  const [program = '', ...args] = command;
  const started = startProgram(program, [...args, role], {
    cwd: folder,
    env: {
      REDIS_URL: servers().redisUrl,
      TEMPORAL_ADDRESS: servers().temporalAddress,
      KEY_PREFIX: prefix,
      TASK_QUEUE: taskQueue,
      PORT: String(port),
      ADMIN_PORT: String(adminPort),
      SECRETS_KEY: `k1:${secretsKey}`,
      ALLOW_HTTP_TARGETS: 'true',
      ALLOWED_TARGET_CIDRS: '127.0.0.0/8',
      ...env,
    },
  });
  const url = `http://127.0.0.1:${port}`;
  const adminUrl = `http://127.0.0.1:${adminPort}`;
  watchAnswers(url);
  const metrics = async () => (await fetch(`${adminUrl}/metrics`)).text();
  return Object.assign(started, { url, adminUrl, prefix, taskQueue, secretsKey, metrics });
}
