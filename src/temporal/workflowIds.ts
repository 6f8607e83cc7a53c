/** The ids of an installation's workflows. Two installations may share a namespace, each with its own task queue. */
export interface WorkflowIds {
  enrichment(clientToken: string, notificationId: string): string;
  /** The workflow of several events. */
  group(name: string): string;
  catchUp(clientToken: string): string;
  redeliver(clientToken: string, notificationId: string): string;
  sweep: string;
}

const defaultTaskQueue = 'notifications';

/** Returns the ids for an installation's task queue. */
export function workflowIds(taskQueue: string): WorkflowIds {
  const scope = taskQueue === defaultTaskQueue ? '' : `${taskQueue}/`;
  return {
    enrichment: (clientToken, notificationId) => `${scope}enrichment/${clientToken}/${notificationId}`,
    group: (name) => `${scope}enrichment/group/${name}`,
    catchUp: (clientToken) => `${scope}catch-up/${clientToken}`,
    redeliver: (clientToken, notificationId) => `${scope}redeliver/${clientToken}/${notificationId}`,
    sweep: `sweep/${taskQueue}`,
  };
}

/**
 * Returns the task queue of activities that must not wait behind `awaitDelivery`, which may hold its slot as long as an
 * attempt takes: the sweep, catch-up, redeliveries. The same processes serve it, with separate slots.
 */
export function upkeepQueueOf(taskQueue: string): string {
  return `${taskQueue}-upkeep`;
}
