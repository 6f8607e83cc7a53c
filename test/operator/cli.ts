/** The real command line, as a child process, against the servers of the test run. */
import { spawn } from 'node:child_process';
import { existsSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { createLogger } from '../../src/log.js';
import { type Db, openDb, waitForRedis } from '../../src/redis/connection/db.js';
import { redisPatience, servers, uniquePrefix } from '../servers.js';

export interface Ran {
  status: number | null;
  stdout: string;
  stderr: string;
}

export interface Cli {
  prefix: string;
  /** Its settings, for a service beside it. */
  env: NodeJS.ProcessEnv;
  db: Db;
  run(args: readonly string[], options?: { input?: string; env?: NodeJS.ProcessEnv }): Promise<Ran>;
  /** The one value that `--json` prints. @throws unless the command was done */
  // biome-ignore lint/suspicious/noExplicitAny: each test looks at the members that it expects
  json(...args: string[]): Promise<any>;
  close(): void;
}

const project = fileURLToPath(new URL('../..', import.meta.url));

/** How the command line is started: the built one if it is not older than its source, which takes half the time. */
export const commandLine: readonly string[] = (() => {
  const built = join(project, 'dist/src/operator/main.js');
  const source = join(project, 'src');
  const newest = readdirSync(source, { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.ts'))
    .reduce((latest, file) => Math.max(latest, statSync(join(source, file)).mtimeMs), 0);
  if (existsSync(built) && statSync(built).mtimeMs >= newest) return [process.execPath, built];
  return [process.execPath, '--import', 'tsx', join(source, 'operator/main.ts')];
})();

/** @param given in the place of the settings that name the test run's servers; undefined: not set */
export async function openCli(given: NodeJS.ProcessEnv = {}): Promise<Cli> {
  const prefix = uniquePrefix();
  const env = {
    REDIS_URL: servers().redisUrl,
    TEMPORAL_ADDRESS: servers().temporalAddress,
    KEY_PREFIX: prefix,
    TASK_QUEUE: prefix,
    ALLOW_HTTP_TARGETS: 'true',
    ALLOWED_TARGET_CIDRS: '127.0.0.0/8',
    SECRETS_KEY: `k1:${Buffer.alloc(32, 7).toString('base64')}`,
    ...given,
  };
  const db = openDb({
    url: servers().redisUrl,
    prefix,
    log: createLogger('silent', 'test'),
    ...redisPatience(),
  });
  await waitForRedis(db, 5000);
  const run: Cli['run'] = (args, options = {}) => runMain(args, { ...env, ...options.env }, options.input);
  return {
    prefix,
    env,
    db,
    run,
    async json(...args) {
      const ran = await run([...args, '--json']);
      if (ran.status !== 0) throw new Error(`${args.join(' ')}: status ${ran.status}, ${ran.stderr}`);
      return JSON.parse(ran.stdout);
    },
    close: () => db.redis.disconnect(),
  };
}

function runMain(args: readonly string[], env: NodeJS.ProcessEnv, input?: string): Promise<Ran> {
  const [command = '', ...before] = commandLine;
  const child = spawn(command, [...before, ...args], {
    env: { PATH: process.env.PATH, HOME: process.env.HOME, ...env },
    stdio: 'pipe',
  });
  let stdout = '';
  let stderr = '';
  child.stdout.on('data', (part) => {
    stdout += part;
  });
  child.stderr.on('data', (part) => {
    stderr += part;
  });
  child.stdin.on('error', () => undefined);
  child.stdin.end(input ?? '');
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (status) => resolve({ status, stdout, stderr }));
  });
}
