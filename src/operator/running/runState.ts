/** `.data/run.json`: information of a running `npm start` for the operator's commands and the next start. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { isSameProcess, type ProcessMark } from './processMark.js';
import { dataDir } from './projectDir.js';

export interface RunState {
  supervisor: ProcessMark;
  children: (ProcessMark & { name?: string })[];
  redisUrl?: string;
  temporalAddress?: string;
  /** Absent when TEMPORAL_ADDRESS names the server. */
  temporalUiUrl?: string;
  apiUrl?: string;
  /** The settings of the running service, without those that the operator has given: input for readConfig. */
  environment?: Record<string, string>;
}

/** Returns the `npm start` that runs now in a data folder, if any. */
export function readRunState(dir = dataDir()): RunState | undefined {
  const state = readLastRunState(dir);
  return state && isSameProcess(state.supervisor) ? state : undefined;
}

/** Returns that of the last `npm start` in a data folder, which may have ended. */
export function readLastRunState(dir: string): RunState | undefined {
  try {
    return JSON.parse(readFileSync(runStateFile(dir), 'utf8'));
  } catch {
    return undefined;
  }
}

export const runStateFile = (dir: string): string => join(dir, 'run.json');
