/** Reads `.data/run.json`, in which `npm start` tells commands and the next start what it runs (local/runState.ts writes it). */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';

/** The folder of the clone, which has package.json. */
export const projectDir = dirname(createRequire(import.meta.url).resolve('#manifest'));

/** The folder of `npm start`'s data: `DATA_DIR`, else `.data/` in the clone. */
export const dataDir = (): string => process.env.DATA_DIR?.trim() || join(projectDir, '.data');

interface RunningHere {
  /** The settings of the running service, servers among them: input for readConfig. Absent until they are known. */
  environment?: Record<string, string>;
}

/** Returns what `npm start` has written for a data folder; `npm start` removes the file when it ends in order. */
export function readRunState<State extends RunningHere = RunningHere>(dir = dataDir()): State | undefined {
  try {
    return JSON.parse(readFileSync(runStateFile(dir), 'utf8'));
  } catch {
    return undefined;
  }
}

export const runStateFile = (dir: string): string => join(dir, 'run.json');
