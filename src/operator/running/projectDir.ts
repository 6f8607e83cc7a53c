import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** The folder of the clone, found from this file: it runs from `src/` under tsx and from `dist/src/` when built. */
export const projectDir = findUp(dirname(fileURLToPath(import.meta.url)));

/** The folder of `npm start`'s data: `DATA_DIR`, else `.data/` in the clone. */
export function dataDir(clone: string = projectDir): string {
  return process.env.DATA_DIR || join(clone, '.data');
}

function findUp(from: string): string {
  if (existsSync(join(from, 'package-lock.json'))) return from;
  const parent = dirname(from);
  if (parent === from) throw new Error('the project folder (the one with package-lock.json) was not found');
  return findUp(parent);
}
