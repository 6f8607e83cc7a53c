/**
 * Returns the task queue of activities that must not wait behind `awaitDelivery`, which may hold its slot as long as an
 * attempt takes: the sweep, catch-up, redeliveries, late claims. The same processes serve it, with separate slots.
 */
export function upkeepQueueOf(taskQueue: string): string {
  return `${taskQueue}-upkeep`;
}
