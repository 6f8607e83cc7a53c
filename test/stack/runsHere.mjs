/**
 * Says whether the tests of the stack run: only in `npm run test:stack`, and only with PostgreSQL, HAProxy, and Go or Temporal's
 * server. Run as a program it exits with status 0 if they do, for test/skips.json.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const isThere = (program) =>
  spawnSync('sh', ['-c', `command -v ${program}`], { stdio: 'ignore' }).status === 0;
const debian = '/usr/lib/postgresql';
const hasPostgresql = () =>
  Boolean(process.env.POSTGRESQL_BIN) ||
  isThere('postgres') ||
  (existsSync(debian) &&
    readdirSync(debian).some((version) => existsSync(`${debian}/${version}/bin/postgres`)));

export function runsHere() {
  // Set by `npm run test:stack`. Every other run would begin to build Temporal's server.
  if (process.env.FAULT_STACK !== '1') return false;
  return hasPostgresql() && isThere('haproxy') && (isThere('go') || isThere('temporal-server'));
}

if (process.argv[1] === fileURLToPath(import.meta.url)) process.exit(runsHere() ? 0 : 1);
