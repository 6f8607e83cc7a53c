import { decisionInWords } from '../../decisionInWords.js';
import type { ClientToken } from '../../ids.js';
import { explainAsset } from '../../redis/owed/decisions.js';
import { workflowIds } from '../../temporal/workflowIds.js';
import { type AddCommand, type Operator, requireClient } from '../operator.js';
import { presentToOperator, workflowInWords, workflowOf } from '../presentToOperator.js';
import { facts } from '../terminal/table.js';
import { moment } from '../terminal/words.js';

export function addExplainCommand(add: AddCommand): void {
  add('explain <token> <platform-id>', 'say why something was or was not sent for an asset', explain);
}

async function explain(operator: Operator, token: ClientToken, platformId: string): Promise<void> {
  await requireClient(operator, token);
  const why = await explainAsset(await operator.db(), token, platformId);
  const { lastEvent, lastNotification } = why;
  const answer = {
    client_token: token,
    platform_id: platformId,
    known_segments: why.knownSegments,
    last_event: lastEvent
      ? { event_id: lastEvent.eventId, at: moment(lastEvent.at), decision: lastEvent.decision }
      : null,
    last_notification: lastNotification ? presentToOperator(operator, lastNotification) : null,
    catch_up_id: workflowIds(operator.config().TASK_QUEUE).catchUp(token),
  };
  operator.answer(answer, () =>
    facts({
      client: token,
      asset: platformId,
      'known segments': why.knownSegments,
      'last event': lastEvent && `${lastEvent.eventId} at ${moment(lastEvent.at)}`,
      decision: decisionInWords(why),
      'last notification': lastNotification?.notificationId,
      state: lastNotification?.state,
      reason: lastNotification?.reason ?? lastNotification?.waitingReason,
      attempts: lastNotification?.attempts.length,
      workflow: lastNotification && workflowInWords(workflowOf(operator, lastNotification)),
      'catch-up': answer.catch_up_id,
    }),
  );
}
