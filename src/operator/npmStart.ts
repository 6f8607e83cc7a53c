/** What `npm start` runs for this project folder: `.data/run.json`, which it writes (local/runState.ts) for commands and the next start. */
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** The folder of the clone, found from this file: it runs from `src/` under tsx and from `dist/src/` when built. */
export const projectDir = findUp(dirname(fileURLToPath(import.meta.url)));

/** The folder of `npm start`'s data: `DATA_DIR`, else `.data/` in the clone. */
export const dataDir = (): string => process.env.DATA_DIR || join(projectDir, '.data');

export interface RunningHere {
  redisUrl?: string;
  temporalAddress?: string;
  /** Absent when TEMPORAL_ADDRESS names the server. */
  temporalUiUrl?: string;
  apiUrl?: string;
  /** The settings of the running service, without those that the operator has given: input for readConfig. */
  environment?: Record<string, string>;
}

/** Returns what `npm start` has written for a data folder; it removes the file when it ends in order. */
export function readRunState<State extends RunningHere = RunningHere>(dir = dataDir()): State | undefined {
  try {
    return JSON.parse(readFileSync(runStateFile(dir), 'utf8'));
  } catch {
    return undefined;
  }
}

export const runStateFile = (dir: string): string => join(dir, 'run.json');

function findUp(from: string): string {
  if (existsSync(join(from, 'package-lock.json'))) return from;
  const parent = dirname(from);
  if (parent === from) throw new Error('the project folder (the one with package-lock.json) was not found');
  return findUp(parent);
}
