import {
  proxyActivities,
  setCurrentDetails,
  sleep,
  upsertSearchAttributes,
  workflowInfo,
} from '@temporalio/workflow';
import type { Activities } from '../activities/index.js';
import { shortRetries } from '../src/delivery/outcome.js';
import { httpStatusKey, notificationStateKey } from '../src/temporal/searchAttributeKeys.js';
import { upkeepQueueOf } from '../src/temporal/workflowIds.js';

export interface RedeliverInput {
  clientToken: string;
  platformId: string;
  notificationId: string;
}

/** Makes one attempt and the short retries, even if a newer notification exists; waits while a full or failing endpoint refuses. */
export async function redeliver(input: RedeliverInput): Promise<void> {
  const { attemptRedelivery } = proxyActivities<Activities>({
    taskQueue: upkeepQueueOf(workflowInfo().taskQueue),
    startToCloseTimeout: '90s',
    summary: 'send an ended notification again',
    retry: { initialInterval: '500ms', backoffCoefficient: 2, maximumInterval: '10s' },
  });
  const longestWaitMs = 600_000;
  let waitedMs = 0;
  for (let failed = 0; ; ) {
    const outcome = await attemptRedelivery(input);
    const delivered = outcome.kind === 'ended' && outcome.state === 'delivered';
    upsertSearchAttributes([
      { key: notificationStateKey, value: delivered ? 'delivered' : 'waiting' },
      ...(outcome.status === undefined ? [] : [{ key: httpStatusKey, value: outcome.status }]),
    ]);
    if (outcome.kind === 'ended') {
      setCurrentDetails(`Ended: ${outcome.state}.`);
      return;
    }
    if (outcome.reason === 'retry') failed++;
    else waitedMs += Math.max(outcome.inMs, 1000);
    if (failed > shortRetries || outcome.inMs < 0 || waitedMs > longestWaitMs) break;
    setCurrentDetails(
      `Not delivered (${outcome.error ?? outcome.reason}); again in ${Math.ceil(outcome.inMs / 1000)} s.`,
    );
    await sleep(Math.max(outcome.inMs, 1000));
  }
  setCurrentDetails('Not delivered: its attempts are in the notification record.');
}
