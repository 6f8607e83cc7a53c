/**
 * Copies both stores of the running stack: PostgreSQL first, Redis last. Owed assets are in Redis, so the backup has every
 * event that was acknowledged before the copy of Redis began. The sweep starts a workflow again that only the copy of Redis
 * knows of; an event that is only in the copy of Temporal would be lost once its workflow has ended.
 */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { cp, mkdir, readdir, rename, rm, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import type { Redis } from 'ioredis';
import { readInfo } from '../../src/operator/doctor/readServer.js';
import { dataDir } from '../../src/operator/running/projectDir.js';
import { type RunState, readRunStateIn } from '../../src/operator/running/runState.js';
import { stackDir, timeInName } from './folders.js';
import { passwordOf, postgresqlUser } from './postgresql.js';
import { requirePostgresql } from './programs.js';
import { withRedis } from './withRedis.js';

const run = promisify(execFile);

/** The content of `backup.json`, beside the copies. */
export interface BackupRecord {
  /** ISO 8601. The copy of PostgreSQL has the state at its end, the copy of Redis at least the state at its beginning. */
  postgresql: { from: string; to: string; version: string };
  redis: { from: string; to: string };
}

/** @throws Error if the stack does not run, a store does not answer, or a copy is incomplete */
export async function backUp(folder?: string): Promise<void> {
  const state = readRunStateIn(stackDir());
  if (!state?.ports) throw new Error('the stack does not run; start it with npm run stack -- up');
  const target = resolve(folder ?? join(dataDir(), 'stack-backups', timeInName()));
  if (existsSync(target)) throw new Error(`${target} exists already`);
  const making = `${target}.unfinished`;
  await rm(making, { recursive: true, force: true });
  await mkdir(making, { recursive: true, mode: 0o700 });
  const record: BackupRecord = {
    postgresql: await copyPostgresql(state.ports, join(making, 'postgresql')),
    redis: await copyRedis(state.ports, join(making, 'redis')),
  };
  await writeFile(join(making, 'backup.json'), `${JSON.stringify(record, null, 2)}\n`);
  await rename(making, target);
  console.log(`backup in ${target}
  postgresql  as of ${record.postgresql.to}
  redis       as of ${record.redis.from}
SECRETS_KEY, which encrypts the signing secrets, is not in it (${keyPlace(state)}). Store it elsewhere.`);
}

/** Copies both of Temporal's databases with their state at one moment, the end of the copy. */
async function copyPostgresql(
  ports: Record<string, number>,
  target: string,
): Promise<BackupRecord['postgresql']> {
  const bin = requirePostgresql();
  const password = passwordOf(join(stackDir(), 'postgresql'));
  const from = new Date().toISOString();
  await mkdir(target, { mode: 0o700 });
  await run(
    join(bin, 'pg_basebackup'),
    [
      ...['-h', '127.0.0.1', '-p', String(ports.postgresql), '-U', postgresqlUser],
      ...['-D', join(target, 'data'), '--checkpoint=fast'],
      ...['--wal-method=stream', '--manifest-checksums=SHA256'],
    ],
    { env: { PATH: process.env.PATH, PGPASSWORD: password } },
  );
  const to = new Date().toISOString();
  await run(join(bin, 'pg_verifybackup'), ['--quiet', join(target, 'data')]);
  await writeFile(join(target, 'password'), `${password}\n`, { mode: 0o600 });
  const { stdout } = await run(join(bin, 'postgres'), ['--version']);
  return { from, to, version: stdout.trim() };
}

/** Copies the append-only folder while no rewrite can change it. */
async function copyRedis(ports: Record<string, number>, target: string): Promise<BackupRecord['redis']> {
  return withRedis(ports.redis ?? 0, async (redis) => {
    const percentage = await rewritePercentage(redis);
    await redis.config('SET', 'auto-aof-rewrite-percentage', '0');
    try {
      while ((await readInfo(redis, 'persistence')).aof_rewrite_in_progress !== '0') await sleep(100);
      const from = new Date().toISOString();
      const files = join(stackDir(), 'redis', 'appendonlydir');
      await cp(files, join(target, 'appendonlydir'), { recursive: true });
      const copied = await readdir(join(target, 'appendonlydir'));
      if (!copied.some((name) => name.endsWith('.manifest'))) throw new Error(`${files} has no manifest`);
      return { from, to: new Date().toISOString() };
    } finally {
      await redis.config('SET', 'auto-aof-rewrite-percentage', percentage);
    }
  });
}

/** Returns the present percentage, or Redis' default if a killed backup left 0. */
async function rewritePercentage(redis: Redis): Promise<string> {
  const [, value = '100'] = (await redis.config('GET', 'auto-aof-rewrite-percentage')) as string[];
  return value === '0' ? '100' : value;
}

function keyPlace({ environment }: RunState): string {
  return process.env.SECRETS_KEY || !environment
    ? 'it is in the environment'
    : join(stackDir(), 'secrets-key');
}
