/** PostgreSQL for Temporal: one cluster in a folder, on 127.0.0.1, as an unprivileged user if this process is root. */
import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import {
  chownSync,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join, sep } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { dataDir, projectDir } from '../../src/operator/running/projectDir.js';
import { type Child, startChild, waitUntilReady } from '../child.js';
import { letThrough, type User, unprivilegedUser } from './unprivileged.js';

const run = promisify(execFile);

export interface PostgresqlOptions {
  /** Holds the cluster (`data`), and the password of its one user (`password`). */
  dir: string;
  port: number;
  /** The folder of its programs. */
  bin: string;
  logFile: string;
  onStart?: ((child: Child) => void) | undefined;
}

/** The superuser, named as in `docker-compose.yml`. */
export const postgresqlUser = 'temporal';

/** Creates the cluster if there is none, and starts it; resolves once it accepts connections. */
export async function startPostgresql(options: PostgresqlOptions): Promise<Child> {
  const user = prepareFolder(options.dir);
  const data = join(options.dir, 'data');
  if (!existsSync(data)) await makeCluster(options, user);
  const started = Date.now();
  for (;;) {
    try {
      return await start(options, user);
    } catch (err) {
      // After a kill its other processes take a moment to notice that the first one is gone.
      const mayFollow =
        err instanceof Error && /is still in use|lock file .* already exists/.test(err.message);
      if (!mayFollow || Date.now() - started > 30_000) throw err;
      await sleep(250);
    }
  }
}

/** Reads the password in the folder of a cluster. */
export function passwordOf(dir: string): string {
  return readFileSync(join(dir, 'password'), 'utf8').trim();
}

/** Checks that a server on 127.0.0.1 accepts connections. */
export async function takesConnections(bin: string, port: number): Promise<boolean> {
  const asked = run(join(bin, 'pg_isready'), ['-q', '-h', '127.0.0.1', '-p', String(port)]);
  return asked.then(
    () => true,
    () => false,
  );
}

/** Gives a folder and its content to the user that PostgreSQL runs as. */
export async function giveToPostgresql(folder: string): Promise<void> {
  const user = unprivilegedUser();
  if (user) await run('chown', ['-R', `${user.uid}:${user.gid}`, folder]);
}

function prepareFolder(dir: string): User | undefined {
  const user = unprivilegedUser();
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  const ours = [join(projectDir, '.data'), dataDir(), join(tmpdir(), 'asset-update-')];
  const isOurs = (folder: string) =>
    statSync(folder).uid === process.getuid?.() && ours.some((one) => `${folder}${sep}`.startsWith(one));
  if (user) letThrough(user, join(dir, 'data'), isOurs);
  return user;
}

async function makeCluster({ dir, bin }: PostgresqlOptions, user: User | undefined): Promise<void> {
  const making = join(dir, 'making');
  rmSync(making, { recursive: true, force: true });
  mkdirSync(making, { mode: 0o700 });
  const passwordFile = join(making, 'password');
  const password = randomBytes(24).toString('base64url');
  writeFileSync(passwordFile, `${password}\n`, { mode: 0o600 });
  if (user) for (const path of [making, passwordFile]) chownSync(path, user.uid, user.gid);
  const data = join(making, 'data');
  await run(
    join(bin, 'initdb'),
    [
      ...['-D', data, '--username', postgresqlUser, '--auth', 'scram-sha-256', '--pwfile', passwordFile],
      ...['--data-checksums', '--encoding', 'UTF8', '--locale', 'C'],
    ],
    { cwd: making, env: environment(), ...idsOf(user) },
  );
  // Root's again: the server keeps only a hash of it.
  if (user) chownSync(passwordFile, 0, 0);
  renameSync(passwordFile, join(dir, 'password'));
  renameSync(data, join(dir, 'data'));
  rmSync(making, { recursive: true });
}

async function start(
  { dir, port, bin, logFile, onStart }: PostgresqlOptions,
  user: User | undefined,
): Promise<Child> {
  const data = join(dir, 'data');
  const child = await startChild({
    name: 'postgresql',
    command: join(bin, 'postgres'),
    args: [
      ...['-D', data, '-p', String(port)],
      ...['-c', 'listen_addresses=127.0.0.1', '-c', 'unix_socket_directories='],
      // As in docker-compose.yml: each of Temporal's services keeps a pool of up to 30 connections.
      ...['-c', 'max_connections=200'],
    ],
    env: environment(),
    cwd: data,
    logFile,
    user: idsOf(user),
    // SIGTERM would wait for its clients.
    stopSignal: 'SIGINT',
    onStart,
  });
  await waitUntilReady(child, () => takesConnections(bin, port), 60_000);
  return child;
}

/** Returns an environment without `PG*` variables, which would change its settings. */
function environment(): NodeJS.ProcessEnv {
  return { PATH: process.env.PATH, LC_ALL: 'C' };
}

function idsOf(user: User | undefined): { uid: number; gid: number } | undefined {
  return user && { uid: user.uid, gid: user.gid };
}
