import { type Client, WorkflowExecutionAlreadyStartedError } from '@temporalio/client';
import { clientTokenKey, notificationStateKey } from '../../workflows/searchAttributes.js';
import type { Db } from '../store/db.js';
import { forgetWakeUp, mustWakeCatchUp } from '../store/owed.js';

export const catchUpId = (clientToken: string): string => `catch-up/${clientToken}`;

function options(clientToken: string, taskQueue: string) {
  return {
    workflowId: catchUpId(clientToken),
    taskQueue,
    args: [{ clientToken }],
    staticSummary: `Catch-up: what ${clientToken} is owed`,
    typedSearchAttributes: [
      { key: clientTokenKey, value: [clientToken] },
      { key: notificationStateKey, value: 'starting' },
    ],
  };
}

/**
 * Wakes a client's catch-up, or starts it, unless it looks by itself before something is due.
 * @param when.inMs ms until something is due; 0: now
 */
export async function wakeCatchUp(
  temporal: Client,
  db: Db,
  clientToken: string,
  when: { inMs?: number; taskQueue: string },
): Promise<void> {
  if (!(await mustWakeCatchUp(db, clientToken, when.inMs ?? 0))) return;
  try {
    await temporal.workflow.signalWithStart('catch-up', {
      ...options(clientToken, when.taskQueue),
      signal: 'wake',
    });
  } catch (err) {
    await forgetWakeUp(db, clientToken);
    throw err;
  }
}

/** Starts a client's catch-up where none runs. */
export async function startCatchUp(temporal: Client, clientToken: string, taskQueue: string): Promise<void> {
  try {
    await temporal.workflow.start('catch-up', options(clientToken, taskQueue));
  } catch (err) {
    if (!(err instanceof WorkflowExecutionAlreadyStartedError)) throw err;
  }
}

/** Ends a catch-up that does nothing and starts another in its place. */
export async function replaceCatchUp(
  temporal: Client,
  clientToken: string,
  taskQueue: string,
): Promise<void> {
  await temporal.workflow.start('catch-up', {
    ...options(clientToken, taskQueue),
    workflowIdConflictPolicy: 'TERMINATE_EXISTING',
  });
}

/** The client tokens of all running catch-ups, by one paged list. */
export async function runningCatchUps(temporal: Client, taskQueue: string): Promise<Set<string>> {
  const running = new Set<string>();
  const query = `WorkflowType = 'catch-up' AND ExecutionStatus = 'Running' AND TaskQueue = '${taskQueue}'`;
  for await (const execution of temporal.workflow.list({ query, pageSize: 1000 })) {
    running.add(execution.workflowId.slice(catchUpId('').length));
  }
  return running;
}
