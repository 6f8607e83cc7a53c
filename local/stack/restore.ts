import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { cp, mkdir, readFile, rename } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { readLeftBehind, readRunStateIn } from '../../src/operator/running/runState.js';
import type { BackupRecord } from './backup.js';
import { hasAppendOnlyFile, stackDir, timeInName } from './folders.js';
import { giveToPostgresql } from './postgresql.js';
import { requirePostgresql } from './programs.js';

type Store = 'redis' | 'postgresql';

/**
 * Replaces the data of the stack with a backup. The replaced data is kept aside, never deleted; the replica starts empty
 * and copies the primary. @throws Error while the stack runs, or if the backup is incomplete: then nothing was changed
 */
export async function restore(folder: string, options: { only?: Store } = {}): Promise<void> {
  const dir = stackDir();
  if (readRunStateIn(dir) || readLeftBehind(dir).length > 0) {
    throw new Error('the stack runs; stop it first with npm run stack -- down');
  }
  const from = resolve(folder);
  const record = await readRecord(from);
  const chosen: Store[] = options.only ? [options.only] : ['redis', 'postgresql'];
  for (const store of chosen) await check(store, join(from, store));

  const aside = join(dir, `before-restore-${timeInName()}`);
  const replaced = chosen.includes('redis') ? [...chosen, 'replica'] : chosen;
  for (const name of replaced) {
    if (!existsSync(join(dir, name))) continue;
    await mkdir(aside, { recursive: true, mode: 0o700 });
    await rename(join(dir, name), join(aside, name));
  }
  for (const store of chosen) {
    const target = join(dir, store);
    await cp(join(from, store), `${target}.restoring`, { recursive: true, preserveTimestamps: true });
    if (store === 'postgresql') await giveToPostgresql(join(`${target}.restoring`, 'data'));
    await rename(`${target}.restoring`, target);
  }
  const asOf = { redis: record.redis.from, postgresql: record.postgresql.to };
  console.log(chosen.map((store) => `${store} has its state of ${asOf[store]}`).join('\n'));
  if (existsSync(aside)) console.log(`the replaced data is in ${aside}`);
  console.log('start the stack with npm run stack -- up');
}

async function readRecord(from: string): Promise<BackupRecord> {
  const text = await readFile(join(from, 'backup.json'), 'utf8').catch(() => undefined);
  if (text === undefined) throw new Error(`${from} is not a backup: it has no backup.json`);
  return JSON.parse(text);
}

async function check(store: Store, from: string): Promise<void> {
  if (store === 'redis') {
    if (!hasAppendOnlyFile(from)) throw new Error(`${from} has no appendonlydir`);
    return;
  }
  await promisify(execFile)(join(requirePostgresql(), 'pg_verifybackup'), ['--quiet', join(from, 'data')]);
}
