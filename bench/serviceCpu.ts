import type { Round } from './measure.js';

/** The benchmark's own processes. */
const bystanders = ['publisher', 'receiver'];

/** CPU time (ms) of everything but the benchmark's own processes for each thing done. */
export function cpuMsPerUnit(round: Round): number {
  return sumOfService(round.cpuMsPerUnit);
}

/** Cores in use by everything but the benchmark's own processes. */
export function coresInUse(round: Round): number {
  return sumOfService(round.cpuShare);
}

function sumOfService(byProcess: Readonly<Record<string, number>>): number {
  return Object.entries(byProcess).reduce((sum, [name, n]) => (bystanders.includes(name) ? sum : sum + n), 0);
}
