/**
 * Names the task queue of attempts of notices. A receiver of notices that never answers holds slots of this queue alone: it
 * delays no notification and no upkeep.
 */
export function noticesQueueOf(taskQueue: string): string {
  return `${taskQueue}-notices`;
}
