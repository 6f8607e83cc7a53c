import { existsSync, renameSync, statSync } from 'node:fs';
import { join } from 'node:path';

/** Returns the one log file of a server of a data folder; renames it first if it is long. */
export function logFile(dir: string, name: string): string {
  const file = join(dir, 'logs', `${name}.log`);
  const longBytes = 32 * 1024 * 1024;
  if (existsSync(file) && statSync(file).size > longBytes) renameSync(file, `${file}.1`);
  return file;
}
