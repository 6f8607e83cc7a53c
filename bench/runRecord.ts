import { readFileSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { availableParallelism, loadavg, release, totalmem } from 'node:os';
import { join } from 'node:path';
import { projectDir } from '../src/operator/npmStart.js';

/** Time, command and machine of a run. */
export interface RunRecord {
  startedAt: string;
  command: string;
  machine: Machine;
}

interface Machine {
  cpu: string;
  cores: number;
  memoryGb: number;
  kernel: string;
  node: string;
  /** Load average of the minute before the run, caused by other processes. */
  loadBefore: number;
}

export function beginRunRecord(): RunRecord {
  return {
    startedAt: new Date().toISOString(),
    command: ['npm run bench --', ...process.argv.slice(2)].join(' '),
    machine: describeMachine(),
  };
}

/** Writes the line above the tables. */
export function runRecordLine({ command, startedAt, machine }: RunRecord): string {
  return `\`${command}\`, ${startedAt}: ${machine.cores} cores (${machine.cpu}), ${machine.memoryGb} GB, Linux ${machine.kernel}, Node ${machine.node}; load average of the minute before ${machine.loadBefore.toFixed(2)}.`;
}

/** Returns the folder of `--out`, or a new one under `bench/results/`. */
export async function resultsFolder(record: RunRecord, named?: string): Promise<string> {
  const folder = named ?? join(projectDir, 'bench/results', record.startedAt.replaceAll(/[:.]/g, '-'));
  await mkdir(folder, { recursive: true });
  return folder;
}

function describeMachine(): Machine {
  return {
    cpu: /^model name\s*:\s*(.+)$/m.exec(readFileSync('/proc/cpuinfo', 'utf8'))?.[1] ?? 'unknown',
    cores: availableParallelism(),
    memoryGb: Math.round(totalmem() / 2 ** 30),
    kernel: release(),
    node: process.version,
    loadBefore: loadavg()[0] ?? 0,
  };
}
