/**
 * Names the task queue of activities that must not wait behind `awaitDelivery`, which may hold its slot for as long as an
 * attempt takes: the sweep, catch-up, redeliveries, late claims. The same processes serve it, with slots of its own.
 */
export function upkeepQueueOf(taskQueue: string): string {
  return `${taskQueue}-upkeep`;
}
