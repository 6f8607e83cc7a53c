/** `.data/run.json`, which `npm start` writes (local/runState.ts) for the operator's commands and the next start. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { dataDir } from './projectDir.js';

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
