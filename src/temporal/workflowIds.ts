/** The ids, task queues and search attributes by which workflows are found. Workflow code imports it. */
import { defineSearchAttributeKey } from '@temporalio/common';

/** The ids of an installation's workflows. Two installations may share a namespace, each with its own task queue. */
export interface WorkflowIds {
  enrichment(clientToken: string, notificationId: string): string;
  /** The workflow of several events. */
  group(name: string): string;
  catchUp(clientToken: string): string;
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
    sweep: `sweep/${taskQueue}`,
  };
}

/**
 * Returns the task queue of activities that must not wait behind `awaitDelivery`, which may hold its slot as long as an
 * attempt takes: the sweep, catch-up. The same processes serve it, with separate slots.
 */
export function upkeepQueueOf(taskQueue: string): string {
  return `${taskQueue}-upkeep`;
}

/** Search attributes, by which operators find a workflow. They never hold a URL or a secret. */
export const clientTokenKey = defineSearchAttributeKey('ClientToken', 'KEYWORD_LIST');
const platformIdKey = defineSearchAttributeKey('PlatformId', 'KEYWORD_LIST');
const eventIdKey = defineSearchAttributeKey('EventId', 'KEYWORD_LIST');
/** The state of an event, or of a group's least finished event; of catch-up: why it waits. */
export const notificationStateKey = defineSearchAttributeKey('NotificationState', 'KEYWORD');
/** The status of the last attempt. */
export const httpStatusKey = defineSearchAttributeKey('HttpStatus', 'INT');

/** One search attribute value takes 2,048 bytes, and a list counts as one. */
const listBytes = 1900;

interface Findable {
  clientToken: string;
  platformId: string;
  eventId: string;
}

/** Returns the search attributes of events, with as many values each as fit. `cut`: some did not fit. */
export function listsOf(events: readonly Findable[]) {
  const lists = [
    { key: clientTokenKey, ...fitting(events.map((e) => e.clientToken)) },
    { key: platformIdKey, ...fitting(events.map((e) => e.platformId)) },
    { key: eventIdKey, ...fitting(events.map((e) => e.eventId)) },
  ];
  return {
    lists: lists.map(({ key, value }) => ({ key, value })),
    cut: lists.some((list) => list.cut),
  };
}

function fitting(values: string[]): { value: string[]; cut: boolean } {
  const value: string[] = [];
  let bytes = 0;
  for (const one of new Set(values)) {
    // An upper bound without encoding: a character takes at most three bytes for each of its UTF-16 units.
    bytes += (/^[\x20-\x7e]*$/.test(one) ? one.length : one.length * 3) + 4;
    if (bytes > listBytes) return { value, cut: true };
    value.push(one);
  }
  return { value, cut: false };
}
