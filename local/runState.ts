/** Writes `.data/run.json` (src/operator/npmStart.ts), and ends processes that it names. */
import { linkSync, mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { readRunState, runStateFile } from '../src/operator/npmStart.js';
import { isSameProcess, type ProcessMark } from './processMark.js';

export interface RunState {
  supervisor: ProcessMark;
  children: (ProcessMark & { name?: string })[];
  apiUrl?: string;
  /** Settings of the running service. */
  environment?: Record<string, string>;
}

/**
 * Makes this process the one supervisor of the data folder.
 * @returns the processes that dead supervisors may have left running, or the state of the supervisor that is alive
 */
export function claimRunState(
  dir: string,
  own: RunState,
): { kind: 'claimed'; leftBehind: ProcessMark[] } | { kind: 'running'; state: RunState } {
  const file = runStateFile(dir);
  const leftBehind: ProcessMark[] = [];
  for (;;) {
    const draft = writeDraft(dir, own);
    try {
      linkSync(draft, file);
      return { kind: 'claimed', leftBehind };
    } catch (err) {
      if (!(err instanceof Error && 'code' in err && err.code === 'EEXIST')) throw err;
    } finally {
      rmSync(draft, { force: true });
    }
    const other = readRunState<RunState>(dir);
    if (other && isSameProcess(other.supervisor)) return { kind: 'running', state: other };
    leftBehind.push(...(other?.children ?? []));
    own.children = leftBehind;
    rmSync(file, { force: true });
  }
}

export function writeRunState(dir: string, state: RunState): void {
  renameSync(writeDraft(dir, state), runStateFile(dir));
}

export function removeRunState(dir: string): void {
  rmSync(runStateFile(dir), { force: true });
}

/** Readable by the owner only, because the settings hold the key of the signing secrets. */
function writeDraft(dir: string, state: RunState): string {
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  const draft = `${runStateFile(dir)}.${process.pid}`;
  writeFileSync(draft, `${JSON.stringify(state, null, 2)}\n`, { mode: 0o600 });
  return draft;
}

/** Ends a process, and only that one; resolves when it is gone. */
export async function endProcess(mark: ProcessMark, graceMs: number): Promise<void> {
  const killAt = Date.now() + graceMs;
  for (let signal: NodeJS.Signals | undefined = 'SIGTERM'; isSameProcess(mark); ) {
    if (signal) send(mark.pid, signal);
    signal = Date.now() > killAt ? 'SIGKILL' : undefined;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

function send(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch (err) {
    if (!(err instanceof Error && 'code' in err && err.code === 'ESRCH')) throw err;
  }
}
