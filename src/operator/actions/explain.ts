import { decisionInWords } from '../../decisionInWords.js';
import type { ClientToken } from '../../ids.js';
import { messageOf } from '../../messageOf.js';
import { explainAsset } from '../../redis/owed/decisions.js';
import { workflowIds } from '../../temporal/workflowIds.js';
import type { Operator } from '../operator.js';
import { presentToOperator, workflowInWords, workflowOf } from '../presentToOperator.js';
import { requireClient } from '../requireClient.js';
import { moment } from '../terminal/moment.js';
import { facts, table } from '../terminal/table.js';

interface FoundWorkflow {
  workflow_id: string;
  run_id: string;
  status: string;
  started_at: string | null;
}

const workflowsShown = 10;

export async function explain(operator: Operator, token: ClientToken, platformId: string): Promise<void> {
  await requireClient(operator, token);
  const why = await explainAsset(await operator.db(), token, platformId);
  const workflows = await workflowsOf(operator, token, platformId);
  const { lastEvent, lastNotification } = why;
  const answer = {
    client_token: token,
    platform_id: platformId,
    known_segments: why.knownSegments,
    last_event: lastEvent
      ? { event_id: lastEvent.eventId, at: moment(lastEvent.at), decision: lastEvent.decision }
      : null,
    last_notification: lastNotification ? presentToOperator(operator, lastNotification) : null,
    workflows,
  };
  operator.answer(answer, () =>
    [
      facts({
        client: token,
        asset: platformId,
        'known segments': why.knownSegments,
        'last event': lastEvent && `${lastEvent.eventId} at ${moment(lastEvent.at)}`,
        decision: decisionInWords(why),
        'last notification': lastNotification?.notificationId,
        workflow: lastNotification && workflowInWords(workflowOf(operator, lastNotification)),
        state: lastNotification?.state,
        reason: lastNotification?.reason ?? lastNotification?.waitingReason,
        attempts: lastNotification?.attempts.length,
      }),
      '',
      table(
        ['WORKFLOW', 'STATUS', 'STARTED'],
        workflows.map((w) => [w.workflow_id, w.status, w.started_at]),
        'Temporal lists no workflow by this asset: it is in the group named above, or no longer kept.',
      ),
    ].join('\n'),
  );
}

/** Finds the event's workflows by their search attributes, and the client's catch-up, newest first. */
async function workflowsOf(
  operator: Operator,
  clientToken: string,
  platformId: string,
): Promise<FoundWorkflow[]> {
  try {
    const temporal = await operator.temporal();
    const ids = workflowIds(operator.config().TASK_QUEUE);
    const query =
      `(ClientToken = '${clientToken}' AND PlatformId = '${quoted(platformId)}')` +
      ` OR WorkflowId = '${ids.catchUp(clientToken)}'`;
    const found: FoundWorkflow[] = [];
    for await (const execution of temporal.workflow.list({ query, pageSize: workflowsShown })) {
      found.push({
        workflow_id: execution.workflowId,
        run_id: execution.runId,
        status: execution.status.name.toLowerCase(),
        started_at: moment(execution.startTime.getTime()) ?? null,
      });
      if (found.length === workflowsShown) break;
    }
    return found;
  } catch (err) {
    operator.warn(`The workflows could not be listed: ${messageOf(err)}`);
    return [];
  }
}

function quoted(value: string): string {
  return value.replaceAll('\\', '\\\\').replaceAll("'", "\\'");
}
