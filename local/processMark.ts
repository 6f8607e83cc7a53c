import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';

/** Distinguishes a process even from a later process with the same pid. */
export interface ProcessMark {
  pid: number;
  /** The start time and program of the process, as the system reports them. */
  identity: string;
}

/** @returns undefined if the process no longer exists */
export function markProcess(pid: number): ProcessMark | undefined {
  const identity = existsSync('/proc/self/stat') ? fromProc(pid) : fromPs(pid);
  return identity === undefined ? undefined : { pid, identity };
}

export function isSameProcess(mark: ProcessMark): boolean {
  return markProcess(mark.pid)?.identity === mark.identity;
}

/**
 * Returns the boot id and field 22 of /proc/<pid>/stat, the start in clock ticks since boot. The name in field 2 may hold
 * spaces and parentheses, so fields are counted from the end of the name. A zombie has ended.
 */
function fromProc(pid: number): string | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const [state, ...rest] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    if (state === 'Z' || state === 'X') return undefined;
    const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
    return `${boot} ${rest[18]}`;
  } catch {
    return undefined;
  }
}

/** Leaves out the command line, which Temporal and Redis may change. */
function fromPs(pid: number): string | undefined {
  try {
    const line = execFileSync('ps', ['-o', 'stat=,lstart=,comm=', '-p', String(pid)], {
      encoding: 'utf8',
      env: { ...process.env, LC_ALL: 'C' },
    }).trim();
    const [state, ...rest] = line.split(/\s+/);
    return !state || state.startsWith('Z') ? undefined : rest.join(' ');
  } catch {
    return undefined;
  }
}
