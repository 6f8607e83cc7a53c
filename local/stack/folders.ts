import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { dataDir } from '../../src/operator/running/projectDir.js';

/** Returns the folder of the stack's state: `stack` in the data folder. */
export function stackDir(): string {
  return join(dataDir(), 'stack');
}

/** Names of the parts that hold data. */
export const stores = ['redis', 'replica', 'postgresql'] as const;

/** Returns the present time, UTC, for the name of a folder: `2026-11-22T10-30-00`. */
export function timeInName(): string {
  return new Date().toISOString().slice(0, 19).replaceAll(':', '-');
}

/** Checks that the folder of a Redis has an append-only file. */
export function hasAppendOnlyFile(dir: string): boolean {
  return existsSync(join(dir, 'appendonlydir'));
}
