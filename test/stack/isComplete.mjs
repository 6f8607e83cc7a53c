/**
 * Whether the stack can run here: PostgreSQL, HAProxy, and Go or Temporal's server. As a program: exit status 0 where it can,
 * for test/skips.json.
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

export function isComplete() {
  return hasPostgresql() && isThere('haproxy') && (isThere('go') || isThere('temporal-server'));
}

if (process.argv[1] === fileURLToPath(import.meta.url)) process.exit(isComplete() ? 0 : 1);
