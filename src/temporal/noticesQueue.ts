/**
 * Returns the name of the task queue for attempts of notices. A receiver of notices that never answers holds slots of this
 * queue only, so it delays no notification and no upkeep.
 */
export function noticesQueueOf(taskQueue: string): string {
  return `${taskQueue}-notices`;
}
