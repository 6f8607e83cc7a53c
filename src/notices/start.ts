import { type Client, WorkflowExecutionAlreadyStartedError } from '@temporalio/client';
import { clientTokenKey, notificationStateKey } from '../temporal/searchAttributeKeys.js';
import { workflowIds } from '../temporal/workflowIds.js';
import { type Notice, presented } from './notice.js';

/** `another`: a notice of this kind for this client already has a workflow in this hour. */
export type Started = 'started' | 'another';

/**
 * Starts the workflow of a notice, unless another notice of this kind for this client has one in this hour. A repeated call
 * finds its own workflow. @throws any error of Temporal
 */
export async function startNotice(
  temporal: Client,
  taskQueue: string,
  notice: Notice,
  hour: string,
): Promise<Started> {
  const workflowId = workflowIds(taskQueue).notice(notice.clientToken, notice.kind, hour, notice.to);
  try {
    await temporal.workflow.start('notice', {
      workflowId,
      taskQueue,
      args: [notice],
      // Also after it has ended: an hour has one of each kind.
      workflowIdReusePolicy: 'REJECT_DUPLICATE',
      workflowIdConflictPolicy: 'FAIL',
      staticSummary: summaryOf(notice),
      memo: { id: notice.id, ...wordsOf(notice) },
      typedSearchAttributes: [
        { key: clientTokenKey, value: [notice.clientToken] },
        { key: notificationStateKey, value: 'waiting' },
      ],
    });
    return 'started';
  } catch (err) {
    if (!(err instanceof WorkflowExecutionAlreadyStartedError)) throw err;
    const { memo } = await temporal.workflow.getHandle(workflowId).describe();
    return memo?.id === notice.id ? 'started' : 'another';
  }
}

function summaryOf({ kind, clientToken, to }: Notice): string {
  return `Notice: ${kind} of ${clientToken}, to ${to === 'account' ? 'its account' : 'the platform'}`;
}

function wordsOf(notice: Notice) {
  return {
    what: summaryOf(notice),
    at: presented(notice.at),
    why: notice.reason,
    since: presented(notice.since),
    attempts_failed: notice.attemptsFailed,
    owed: notice.owed,
  };
}
