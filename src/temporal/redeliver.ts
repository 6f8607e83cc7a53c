import type { Client } from '@temporalio/client';
import { clientTokenKey, platformIdKey } from './searchAttributeKeys.js';
import { workflowIds } from './workflowIds.js';

/** Sends an ended notification again; a second call while one is under way joins it. */
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
