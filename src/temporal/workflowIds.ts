/** The ids, task queues and search attributes by which workflows are found. Workflow code imports this file. */
import { defineSearchAttributeKey } from '@temporalio/common';

const defaultTaskQueue = 'notifications';

export type WorkflowIds = ReturnType<typeof workflowIds>;

/** Returns the ids of an installation's workflows. Two installations may share a namespace, each with its own task queue. */
export function workflowIds(taskQueue: string) {
  const scope = taskQueue === defaultTaskQueue ? '' : `${taskQueue}/`;
  return {
    enrichment: (clientToken: string, notificationId: string) =>
      `${scope}enrichment/${clientToken}/${notificationId}`,
    /** The workflow of several events. */
    group: (name: string) => `${scope}enrichment/group/${name}`,
    catchUp: (clientToken: string) => `${scope}catch-up/${clientToken}`,
    sweep: `sweep/${taskQueue}`,
  };
}

/**
 * Returns the task queue of activities that must not wait behind `awaitDelivery`, which may hold its slot as long as an
 * attempt takes: the sweep, catch-up. The same processes serve it, with separate slots.
 */
export const upkeepQueueOf = (taskQueue: string): string => `${taskQueue}-upkeep`;

/** The sweep and catch-up go before enrichments that wait for a worker: they find what enrichments leave behind. The default is 3. */
export const upkeepPriority = { priorityKey: 1 };

/** Search attributes, by which operators find a workflow. They never hold a URL or a secret. */
export const clientTokenKey = defineSearchAttributeKey('ClientToken', 'KEYWORD_LIST');
export const platformIdKey = defineSearchAttributeKey('PlatformId', 'KEYWORD_LIST');
export const eventIdKey = defineSearchAttributeKey('EventId', 'KEYWORD_LIST');
/** The state of an event, or of a group's least finished event; of catch-up: why it waits. */
export const notificationStateKey = defineSearchAttributeKey('NotificationState', 'KEYWORD');
/** The worst status of the events' last attempts. */
export const httpStatusKey = defineSearchAttributeKey('HttpStatus', 'INT');
