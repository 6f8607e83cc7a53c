import type { Round } from './measure.js';

/** The benchmark's own processes. */
const bystanders = ['publisher', 'receiver'];

/** Returns the CPU time (ms) for each unit, without the benchmark's own processes. */
export function cpuMsPerUnit(round: Round): number {
  return sumOfService(round.cpuMsPerUnit);
}

/** Returns the cores in use, without the benchmark's own processes. */
export function coresInUse(round: Round): number {
  return sumOfService(round.cpuShare);
}

function sumOfService(byProcess: Readonly<Record<string, number>>): number {
  return Object.entries(byProcess).reduce((sum, [name, n]) => (bystanders.includes(name) ? sum : sum + n), 0);
}
