import {
  proxyActivities,
  setCurrentDetails,
  sleep,
  upsertMemo,
  upsertSearchAttributes,
  workflowInfo,
} from '@temporalio/workflow';
import type { Activities } from '../activities/index.js';
import type { Notice } from '../src/notices/notice.js';
import type { NoticeResult, Sent } from '../src/notices/send.js';
import { noticesQueueOf } from '../src/temporal/noticesQueue.js';
import { httpStatusKey, notificationStateKey } from '../src/temporal/searchAttributeKeys.js';

export interface NoticeOutcome {
  state: NoticeResult;
  why: string;
  status?: number;
  tries: number;
}

/** Sends one notice: makes attempts until it is delivered, failed or cancelled. */
export async function notice(told: Notice): Promise<NoticeOutcome> {
  const { sendNotice } = proxyActivities<Activities>({
    taskQueue: noticesQueueOf(workflowInfo().taskQueue),
    // Longer than the wait for a connection and the longest time of an attempt.
    startToCloseTimeout: '90s',
    summary: 'send the notice',
    retry: { initialInterval: '500ms', backoffCoefficient: 2, maximumInterval: '1m' },
  });
  const startedAtMs = workflowInfo().startTime.getTime();
  for (let tries = 0; ; ) {
    const sent = await sendNotice(told, { tries, startedAtMs });
    tries++;
    show(sent, tries);
    if (sent.state !== 'waiting') return { ...sent, tries };
    await sleep(sent.inMs);
  }
}

/** Shows the progress. The memo can be read even while no worker runs. */
function show(sent: Sent, tries: number): void {
  const ended = sent.state !== 'waiting';
  const next = ended ? null : new Date(Date.now() + sent.inMs).toISOString();
  upsertSearchAttributes([
    { key: notificationStateKey, value: sent.state },
    ...(sent.status === undefined ? [] : [{ key: httpStatusKey, value: sent.status }]),
  ]);
  upsertMemo({ state: `${sent.state}: ${sent.why}`, tries, next });
  setCurrentDetails(
    `${sent.state} after ${tries} tries: ${sent.why}${next === null ? '.' : `; again at ${next}.`}`,
  );
}
