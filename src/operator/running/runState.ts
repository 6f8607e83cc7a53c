/** `.data/run.json`: information of a running `npm start` for the operator's commands and the next start. */
import { linkSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
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

/** Returns the `npm start` that runs now for this clone, if any. */
export function readRunState(projectDir?: string): RunState | undefined {
  const state = read(dataDir(projectDir));
  return state && isSameProcess(state.supervisor) ? state : undefined;
}

/**
 * Makes this process the one supervisor of the data folder.
 * @returns the state of a dead one, whose children may still run, or the one that is alive
 */
export function claimRunState(
  dir: string,
  own: RunState,
): { kind: 'claimed'; leftBehind: ProcessMark[] } | { kind: 'running'; state: RunState } {
  const leftBehind: ProcessMark[] = [];
  for (;;) {
    const draft = writeDraft(dir, own);
    try {
      linkSync(draft, file(dir));
      return { kind: 'claimed', leftBehind };
    } catch (err) {
      if (!(err instanceof Error && 'code' in err && err.code === 'EEXIST')) throw err;
    } finally {
      rmSync(draft, { force: true });
    }
    const other = read(dir);
    if (other && isSameProcess(other.supervisor)) return { kind: 'running', state: other };
    leftBehind.push(...(other?.children ?? []));
    own.children = leftBehind;
    rmSync(file(dir), { force: true });
  }
}

export function writeRunState(dir: string, state: RunState): void {
  renameSync(writeDraft(dir, state), file(dir));
}

export function removeRunState(dir: string): void {
  rmSync(file(dir), { force: true });
}

const file = (dir: string) => join(dir, 'run.json');

/** Readable by the owner only, because the settings hold the key of the signing secrets. */
function writeDraft(dir: string, state: RunState): string {
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  const draft = `${file(dir)}.${process.pid}`;
  writeFileSync(draft, `${JSON.stringify(state, null, 2)}\n`, { mode: 0o600 });
  return draft;
}

function read(dir: string): RunState | undefined {
  try {
    return JSON.parse(readFileSync(file(dir), 'utf8'));
  } catch {
    return undefined;
  }
}
