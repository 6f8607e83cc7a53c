/**
 * Where activities wait that must not wait behind the retries of `enrichment`, each of which may hold its slot for as
 * long as an attempt takes: the sweep, catch-up, redeliveries, claims. The same workers serve it, with slots of its own.
 */
export function upkeepQueueOf(taskQueue: string): string {
  return `${taskQueue}-upkeep`;
}
