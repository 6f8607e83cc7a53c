/** The real service in a process of its own, with everything it said kept. */
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { freePort } from '../../local/ports.js';
import { watchAnswers } from '../api/reference/watchAnswers.js';
import { until } from '../delivery/harness.js';
import { servers, uniquePrefix } from '../servers.js';

export interface Service {
  url: string;
  adminUrl: string;
  prefix: string;
  taskQueue: string;
  secretsKey: string;
  /** Everything on its stdout and stderr so far. */
  said(): string;
  /** Ends it as an orchestrator does. Resolves with its exit code. */
  stop(): Promise<number | null>;
}

/**
 * `node dist/src/main.js <role>`, ready; `npm test` has built it before.
 * @param folder where the service is, built
 */
export async function startService(
  env: Record<string, string> = {},
  role: 'all' | 'api' | 'worker' = 'all',
  folder = join(import.meta.dirname, '../..'),
): Promise<Service> {
  const prefix = uniquePrefix();
  const taskQueue = `${prefix}queue`;
  const [port, adminPort] = await Promise.all([freePort(), freePort()]);
  const secretsKey = randomBytes(32).toString('base64');
  const child = spawn(process.execPath, ['dist/src/main.js', role], {
    cwd: folder,
    env: {
      PATH: process.env.PATH,
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
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let said = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      said += text;
    });
  }
  const ended = new Promise<number | null>((resolve) => child.once('close', resolve));
  const url = `http://127.0.0.1:${port}`;
  const adminUrl = `http://127.0.0.1:${adminPort}`;
  await until(
    'the service is ready',
    async () => {
      if (child.exitCode !== null) throw new Error(`the service ended: ${said}`);
      const at = role === 'worker' ? adminUrl : url;
      return (await fetch(`${at}/readyz`).catch(() => undefined))?.ok;
    },
    60_000,
  ).catch((err: unknown) => {
    child.kill('SIGKILL');
    throw err;
  });
  watchAnswers(url);
  return {
    url,
    adminUrl,
    prefix,
    taskQueue,
    secretsKey,
    said: () => said,
    stop: () => {
      child.kill('SIGTERM');
      return ended;
    },
  };
}
