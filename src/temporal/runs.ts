import type { Client } from '@temporalio/client';
import { workflowIds } from './workflowIds.js';

/** Has the clients of a run follow its state: wakes the workflow that sees to it, or starts one. @throws what Temporal throws */
export async function followRun(temporal: Client, runId: string, taskQueue: string): Promise<void> {
  await temporal.workflow.signalWithStart('run', {
    workflowId: workflowIds(taskQueue).run(runId),
    taskQueue,
    args: [{ runId }],
    signal: 'changed',
    staticSummary: `Run ${runId}: what it is owed follows its state`,
  });
}
