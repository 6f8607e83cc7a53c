import type { Client } from '@temporalio/client';
import { clientTokenKey, platformIdKey } from './searchAttributeKeys.js';
import { workflowIds } from './workflowIds.js';

/** Starts the workflow that sends an ended notification again; a second call while it runs joins it. */
export async function startRedeliver(
  temporal: Client,
  input: { clientToken: string; platformId: string; notificationId: string },
  taskQueue: string,
): Promise<void> {
  await temporal.workflow.start('redeliver', {
    workflowId: workflowIds(taskQueue).redeliver(input.clientToken, input.notificationId),
    taskQueue,
    args: [input],
    staticSummary: `Redeliver ${input.notificationId} to ${input.clientToken}`,
    workflowIdConflictPolicy: 'USE_EXISTING',
    typedSearchAttributes: [
      { key: clientTokenKey, value: [input.clientToken] },
      { key: platformIdKey, value: [input.platformId] },
    ],
  });
}
