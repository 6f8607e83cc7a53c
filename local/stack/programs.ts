/** Finds the programs of the stack on PATH; Go builds Temporal's server if it is missing. */
import { readdirSync, readFileSync, realpathSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { messageOf } from '../../src/messageOf.js';
import { projectDir } from '../../src/operator/running/projectDir.js';
import { findOnPath, isExecutable, redisBinary, temporalBinary } from '../binaries.js';
import { goTools } from '../goTools.js';

type Say = (line: string) => void;

export interface Programs {
  redis: string;
  /** Temporal's command line, which creates the namespace. */
  temporalCli: string;
  temporalServer: string;
  temporalSqlTool: string;
  /** The folder of PostgreSQL's programs, which all have one version. */
  postgresqlBin: string;
  haproxy: string;
  /** Undefined if it is missing: the stack runs without it. */
  prometheus: string | undefined;
}

/** @throws Error with a line for each missing program, and how to install it */
export async function findPrograms(say: Say): Promise<Programs> {
  const missing: string[] = [];
  let postgresqlBin: string | undefined;
  try {
    postgresqlBin = requirePostgresql();
  } catch (err) {
    missing.push(messageOf(err));
  }
  const haproxy = findOnPath('haproxy');
  if (!haproxy) missing.push(installHaproxy);
  const canMakeTemporal = onPath() ?? findOnPath('go');
  if (!canMakeTemporal) missing.push(installTemporal());
  // Downloads and the build come last, so that a missing package is reported before them.
  if (!postgresqlBin || !haproxy || !canMakeTemporal) throw new MissingPrograms(missing);
  const temporal = await temporalServer(say);
  return {
    redis: await redisBinary(say),
    temporalCli: await temporalBinary(say),
    ...temporal,
    postgresqlBin,
    haproxy,
    prometheus: findOnPath('prometheus'),
  };
}

class MissingPrograms extends Error {
  override name = 'MissingPrograms';
  constructor(lines: readonly string[]) {
    super(['the stack cannot run here:', ...lines.map((line) => `  - ${line}`)].join('\n'));
  }
}

const installPostgresql =
  'PostgreSQL 13 or newer is missing: apt-get install postgresql, brew install postgresql, or name the folder of its programs in POSTGRESQL_BIN';
const installHaproxy = 'HAProxy is missing: apt-get install haproxy, or brew install haproxy';
const installTemporal = () =>
  `Temporal's server is missing: install Go (https://go.dev/dl), which builds ${temporalVersion()} once (this takes minutes), ` +
  'or put temporal-server and temporal-sql-tool on PATH';

/** Returns the version in the Docker stack. */
export function temporalVersion(): string {
  const compose = readFileSync(join(projectDir, 'docker-compose.yml'), 'utf8');
  const version = /temporalio\/server:(\d+\.\d+\.\d+)/.exec(compose)?.[1];
  if (!version) throw new Error('docker-compose.yml names no version of temporalio/server');
  return `v${version}`;
}

type TemporalPrograms = Pick<Programs, 'temporalServer' | 'temporalSqlTool'>;

async function temporalServer(say: Say): Promise<TemporalPrograms> {
  const there = onPath();
  if (there) return there;
  const version = temporalVersion();
  const timer = setTimeout(
    () => say(`building Temporal's server ${version} with Go: this takes minutes, the first time only`),
    500,
  );
  try {
    const packages = ['cmd/server', 'cmd/tools/sql'].map((name) => `go.temporal.io/server/${name}`);
    const home = await goTools('temporal-server', packages, version);
    return { temporalServer: join(home, 'server'), temporalSqlTool: join(home, 'sql') };
  } finally {
    clearTimeout(timer);
  }
}

function onPath(): TemporalPrograms | undefined {
  const [server, tool] = ['temporal-server', 'temporal-sql-tool'].map(findOnPath);
  return server && tool ? { temporalServer: server, temporalSqlTool: tool } : undefined;
}

const ofPostgresql = ['postgres', 'initdb', 'pg_isready', 'pg_basebackup', 'pg_verifybackup'];

/** Returns `POSTGRESQL_BIN`, the folder of `postgres` on PATH, or the newest of Debian's or Homebrew's that has every needed program. */
export function findPostgresql(): string | undefined {
  const given = process.env.POSTGRESQL_BIN;
  const isWhole = (bin: string) => ofPostgresql.every((name) => isExecutable(join(bin, name)));
  if (given) {
    if (!isWhole(given)) throw new Error(`POSTGRESQL_BIN names no folder with ${ofPostgresql.join(', ')}`);
    return given;
  }
  const onPath = findOnPath('postgres');
  return [
    ...(onPath ? [dirname(realpathSync(onPath))] : []),
    ...versionsIn('/usr/lib/postgresql', /^(\d+)$/),
    ...versionsIn('/opt/homebrew/opt', /^postgresql@(\d+)$/),
    ...versionsIn('/usr/local/opt', /^postgresql@(\d+)$/),
  ].find(isWhole);
}

/** Returns the same folder. @throws Error with how to install PostgreSQL, or if POSTGRESQL_BIN is wrong */
export function requirePostgresql(): string {
  const bin = findPostgresql();
  if (!bin) throw new Error(installPostgresql);
  return bin;
}

/** Lists the folders of versions, the newest first. */
function versionsIn(folder: string, pattern: RegExp): string[] {
  const version = (name: string) => Number(pattern.exec(name)?.[1] ?? 0);
  try {
    return readdirSync(folder)
      .filter((name) => version(name) >= 13)
      .sort((a, b) => version(b) - version(a))
      .map((name) => join(folder, name, 'bin'));
  } catch {
    return [];
  }
}
