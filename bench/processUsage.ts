import { existsSync, readFileSync } from 'node:fs';

/** CPU time of a process and its children until now, over all threads, and their memory now. */
interface ProcessUsage {
  cpuMs: number;
  rssBytes: number;
}

/**
 * Reads the usage of a process with its children: most of PostgreSQL's processes are children. Shared memory counts once.
 * @throws if there is no such process, or no /proc (the benchmark runs on Linux)
 */
function processUsage(pid: number): ProcessUsage {
  const usage = ownUsage(pid, 'VmRSS');
  for (const child of listChildren(pid)) {
    try {
      const { cpuMs, rssBytes } = ownUsage(child, 'RssAnon');
      usage.cpuMs += cpuMs;
      usage.rssBytes += rssBytes;
    } catch {
      // The child ended after the list was read.
    }
  }
  return usage;
}

function ownUsage(pid: number, memory: 'VmRSS' | 'RssAnon'): ProcessUsage {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  // The command (second field) may hold blanks and parentheses: count from its last parenthesis. Then proc(5), fields
  // 14 to 17: user and system time of the whole thread group, and of children that have ended.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  const ticks = [11, 12, 13, 14].reduce((sum, field) => sum + Number(fields[field]), 0);
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  const kib = Number(new RegExp(`^${memory}:\\s+(\\d+)`, 'm').exec(status)?.[1] ?? 0);
  return { cpuMs: ticks * msPerTick, rssBytes: kib * 1024 };
}

function listChildren(pid: number): number[] {
  const file = `/proc/${pid}/task/${pid}/children`;
  return existsSync(file) ? readFileSync(file, 'utf8').trim().split(' ').filter(Boolean).map(Number) : [];
}

/** USER_HZ is 100 on every Linux that Node runs on. */
const msPerTick = 10;

/** Process ids by the name in the tables. */
export type Pids = Readonly<Record<string, number>>;
export type Usages = Record<string, ProcessUsage>;

export function readUsages(pids: Pids): Usages {
  return Object.fromEntries(Object.entries(pids).map(([name, pid]) => [name, processUsage(pid)]));
}

/**
 * Returns milliseconds of the machine's monotonic clock, with fractions. On Linux and macOS all processes share this
 * clock, so times of the publisher and of the receiver can be subtracted.
 */
export function monotonicMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}
