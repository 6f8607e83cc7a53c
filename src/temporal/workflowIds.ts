/** The ids of an installation's workflows: two may share a namespace, each with a task queue of its own. */
export interface WorkflowIds {
  enrichment(clientToken: string, notificationId: string): string;
  /** Of events that share a workflow. */
  group(name: string): string;
  catchUp(clientToken: string): string;
  redeliver(clientToken: string, notificationId: string): string;
  sweep: string;
}

const defaultTaskQueue = 'notifications';

export function workflowIds(taskQueue: string): WorkflowIds {
  const scope = taskQueue === defaultTaskQueue ? '' : `${taskQueue}/`;
  return {
    enrichment: (clientToken, notificationId) => `${scope}enrichment/${clientToken}/${notificationId}`,
    group: (name) => `${scope}enrichment/group/${name}`,
    catchUp: (clientToken) => `${scope}catch-up/${clientToken}`,
    redeliver: (clientToken, notificationId) => `${scope}redeliver/${clientToken}/${notificationId}`,
    // A schedule of this id may be there from the first release.
    sweep: `sweep/${taskQueue}`,
  };
}

/** Which notification a workflow of one event is of, by its id. */
export function notificationOf(
  workflowId: string,
): { clientToken: string; notificationId: string } | undefined {
  const [, clientToken, notificationId] = /(?:^|\/)enrichment\/([^/]+)\/(msg_[^/]+)$/.exec(workflowId) ?? [];
  return clientToken === undefined || notificationId === undefined
    ? undefined
    : { clientToken, notificationId };
}
