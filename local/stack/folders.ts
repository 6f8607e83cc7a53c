import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { dataDir } from '../../src/operator/running/projectDir.js';

/** Where the stack keeps its state: `stack` in the data folder. */
export function stackDir(): string {
  return join(dataDir(), 'stack');
}

/** Of the parts that hold data, by their name. */
export const stores = ['redis', 'replica', 'postgresql'] as const;

/** Says whether a Redis' folder holds what it has been told. */
export function hasAppendOnlyFile(dir: string): boolean {
  return existsSync(join(dir, 'appendonlydir'));
}
