import { type Client, WorkflowExecutionAlreadyStartedError } from '@temporalio/client';
import { clientTokenKey, notificationStateKey } from '../temporal/searchAttributeKeys.js';
import { workflowIds } from '../temporal/workflowIds.js';
import { type Notice, presented } from './notice.js';

/** `another`: one of this kind was told of this client in this hour. */
export type Started = 'started' | 'another';

/**
 * Starts the workflow that tells a notice, unless another of its kind was told of this client in this hour. A call that is
 * repeated finds its own workflow. @throws what Temporal throws
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
      // Also once it has ended: an hour has one of each kind.
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
