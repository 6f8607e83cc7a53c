import { readFileSync } from 'node:fs';

/** What one process has used so far: CPU time of all its threads, and the memory it holds now. */
export interface ProcessUsage {
  cpuMs: number;
  rssBytes: number;
}

/** @throws when there is no such process, or no /proc (the benchmark runs on Linux) */
export function processUsage(pid: number): ProcessUsage {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  // The command (second field) may hold blanks and parentheses: count from its last one. Then proc(5), fields
  // 14 and 15: user and system time of the whole thread group.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  const ticks = Number(fields[11]) + Number(fields[12]);
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  const rssKib = Number(/^VmRSS:\s+(\d+)/m.exec(status)?.[1] ?? 0);
  return { cpuMs: ticks * msPerTick, rssBytes: rssKib * 1024 };
}

/** USER_HZ is 100 on every Linux that Node runs on. */
const msPerTick = 10;

/** Processes by the name they have in the table. */
export type Pids = Readonly<Record<string, number>>;
export type Usages = Record<string, ProcessUsage>;

export function usageOf(pids: Pids): Usages {
  return Object.fromEntries(Object.entries(pids).map(([name, pid]) => [name, processUsage(pid)]));
}
