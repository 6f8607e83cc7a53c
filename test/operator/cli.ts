/** The real command line, outside the test's process, against the servers of the test run. */
import assert from 'node:assert/strict';
import { type ChildProcess, fork, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath, pathToFileURL } from 'node:url';
import type { ClientToken } from '../../src/ids.js';
import { createLogger } from '../../src/log.js';
import { openDb, waitForRedis } from '../../src/redis/connection/db.js';
import { type ClaimedEvent, claimAgain } from '../../src/redis/owed/claim.js';
import { createClient } from '../../src/redis/records/clients.js';
import { markAnswered, register } from '../../src/redis/records/registrations.js';
import { createSecretBox } from '../../src/redis/records/secretBox.js';
import { atEnd, redisPatience, secretsKey, servers, settings, uniquePrefix } from '../servers.js';
import { arrivedEvent } from '../service.js';

export interface Ran {
  status: number | null;
  stdout: string;
  stderr: string;
}

interface Given {
  env?: NodeJS.ProcessEnv;
  /** In a process of its own, as an operator runs it. */
  alone?: boolean;
}

export type Cli = Awaited<ReturnType<typeof openCli>>;

const project = fileURLToPath(new URL('../..', import.meta.url));

/** The built command line if it is not older than its source, because it loads faster. */
const isBuilt = (() => {
  const built = join(project, 'dist/src/operator/program.js');
  const newest = readdirSync(join(project, 'src'), { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.ts'))
    .reduce((latest, file) => Math.max(latest, statSync(join(project, 'src', file)).mtimeMs), 0);
  return existsSync(built) && statSync(built).mtimeMs >= newest;
})();
const nodeOptions = isBuilt ? [] : ['--import', 'tsx'];
const pathOf = (module: 'main' | 'program') =>
  join(project, isBuilt ? `dist/src/operator/${module}.js` : `src/operator/${module}.ts`);

/** @param given in the place of the settings that name the test run's servers; undefined: not set */
export async function openCli(given: NodeJS.ProcessEnv = {}) {
  const prefix = uniquePrefix();
  /** For a service beside it, too. */
  const env: NodeJS.ProcessEnv = {
    REDIS_URL: servers().redisUrl,
    TEMPORAL_ADDRESS: servers().temporalAddress,
    KEY_PREFIX: prefix,
    TASK_QUEUE: prefix,
    ALLOW_HTTP_TARGETS: 'true',
    ALLOWED_TARGET_CIDRS: '127.0.0.0/8',
    SECRETS_KEY: `k1:${secretsKey}`,
    ...given,
  };
  const log = createLogger('silent', 'test');
  const db = openDb({ url: servers().redisUrl, prefix, settings, log, ...redisPatience() });
  await waitForRedis(db, 5000);
  atEnd(async () => db.redis.disconnect());
  /** Runs a command, in a process that runs several one after another unless it is to be alone. */
  const run = (args: readonly string[], { env: its, alone = false }: Given = {}): Promise<Ran> => {
    const all = { PATH: process.env.PATH, HOME: process.env.HOME, ...env, ...its };
    return alone ? runAlone(args, all) : runInServer(args, all);
  };
  return {
    prefix,
    env,
    db,
    run,
    /** Why a command is refused. @throws unless it is */
    async refused(...args: string[]): Promise<string> {
      const { status, stdout, stderr } = await run(args);
      assert.deepEqual([status, stdout], [1, ''], stderr);
      return stderr;
    },
    /** The one value that `--json` prints. @throws unless the command was done */
    // biome-ignore lint/suspicious/noExplicitAny: each test looks at the members that it expects
    async json(...args: string[]): Promise<any> {
      const ran = await run([...args, '--json']);
      if (ran.status !== 0) throw new Error(`${args.join(' ')}: status ${ran.status}, ${ran.stderr}`);
      return JSON.parse(ran.stdout);
    },
  };
}

/** Makes a client, and registers its URL as a publisher does. */
export async function registeredClient(
  { db }: Pick<Cli, 'db'>,
  accountId: string,
  clientToken: string,
  url: string,
): Promise<ClientToken> {
  const client = await createClient(db, { accountId, name: `Site of ${clientToken}`, clientToken });
  const result = await register(db, createSecretBox(undefined), clientToken, url);
  if (result.outcome !== 'stored') throw new Error(`${clientToken} already has a URL`);
  await markAnswered(db, clientToken, result.nonce);
  return client.clientToken;
}

/** Has an asset of a client owed. @returns the id of its notification */
export async function owe(
  { db }: Pick<Cli, 'db'>,
  clientToken: string,
  platformId = 'vid-1',
  given: Partial<ClaimedEvent> = {},
): Promise<string> {
  const event = { ...arrivedEvent(clientToken, platformId), claim: 1, ...given };
  await claimAgain(db, event.clientToken, [event]);
  return event.notificationId;
}

/** Processes that wait for a command, with the authorities that Node has read at their start. All of them end with this one. */
const idleServers = new Map<ChildProcess, string>();

function runInServer(args: readonly string[], env: NodeJS.ProcessEnv): Promise<Ran> {
  const { NODE_EXTRA_CA_CERTS: authorities = '' } = env;
  const idle = [...idleServers].filter(([{ connected }, own]) => connected && own === authorities);
  const [[server] = [startServer(authorities)]] = idle;
  idleServers.delete(server);
  return new Promise((resolve, reject) => {
    const fail = (status: number | null) =>
      reject(new Error(`"${args.join(' ')}" ended its process: ${status}`));
    server.once('exit', fail);
    server.once('message', (ran: Ran) => {
      server.off('exit', fail);
      idleServers.set(server, authorities);
      resolve(ran);
    });
    server.send({ args, env });
  });
}

function startServer(authorities: string): ChildProcess {
  const path = join(project, 'test/operator/commandServer.mjs');
  const server = fork(path, [pathToFileURL(pathOf('program')).href], {
    execArgv: nodeOptions,
    env: { ...process.env, NODE_EXTRA_CA_CERTS: authorities },
  });
  // It keeps no run of mocha from its end.
  server.unref();
  server.channel?.unref();
  return server;
}

/** Returns the arguments of Node that run a command. */
export const commandOf = (...args: readonly string[]) => [...nodeOptions, pathOf('main'), ...args];

async function runAlone(args: readonly string[], env: NodeJS.ProcessEnv): Promise<Ran> {
  const child = spawn(process.execPath, commandOf(...args), { env, stdio: ['ignore', 'pipe', 'pipe'] });
  const closed = once(child, 'close');
  const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr)]);
  const [status] = (await closed) as [number | null];
  return { status, stdout, stderr };
}
