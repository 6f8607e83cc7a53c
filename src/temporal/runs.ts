import type { Client } from '@temporalio/client';
import { workflowIds } from './workflowIds.js';

/** Makes the clients of a run follow its state: signals its workflow, or starts one. @throws what Temporal throws */
export async function signalRun(temporal: Client, runId: string, taskQueue: string): Promise<void> {
  await temporal.workflow.signalWithStart('run', {
    workflowId: workflowIds(taskQueue).run(runId),
    taskQueue,
    args: [{ runId }],
    signal: 'changed',
    staticSummary: `Run ${runId}: its owed notifications follow its state`,
  });
}
