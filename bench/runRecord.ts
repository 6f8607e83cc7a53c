import { readFileSync } from 'node:fs';
import { availableParallelism, loadavg, release, totalmem } from 'node:os';

/** Time, command and machine of a run. */
export interface RunRecord {
  startedAt: string;
  command: string;
  /** Cores, memory, kernel, Node, and the load average of the minute before the run, caused by other processes. */
  machine: string;
}

export function beginRunRecord(): RunRecord {
  return {
    startedAt: new Date().toISOString(),
    command: ['npm run bench --', ...process.argv.slice(2)].join(' '),
    machine: describeMachine(),
  };
}

function describeMachine(): string {
  const cpu = /^model name\s*:\s*(.+)$/m.exec(readFileSync('/proc/cpuinfo', 'utf8'))?.[1] ?? 'unknown';
  const memoryGb = Math.round(totalmem() / 2 ** 30);
  const loadBefore = (loadavg()[0] ?? 0).toFixed(2);
  return `${availableParallelism()} cores (${cpu}), ${memoryGb} GB, Linux ${release()}, Node ${process.version}; load average of the minute before ${loadBefore}`;
}
