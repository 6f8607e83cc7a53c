import {
  condition,
  defineSignal,
  proxyActivities,
  setCurrentDetails,
  setHandler,
  workflowInfo,
} from '@temporalio/workflow';
import type { Activities } from '../activities/index.js';
import { upkeepQueueOf } from '../src/temporal/upkeepQueue.js';

/** After this many rounds, which take longer than a lease, the sweep starts another workflow for the rest. */
const maxRounds = 60;
const pauseMs = 2000;

/**
 * Makes the owed notifications of an analysis run follow the state that an operator gave it: cancelled, paused, or due again.
 * Repeats this if the state changes meanwhile, and until the attempts that were under way have ended.
 */
export async function run({ runId }: { runId: string }): Promise<void> {
  const { followRun } = proxyActivities<Activities>({
    taskQueue: upkeepQueueOf(workflowInfo().taskQueue),
    startToCloseTimeout: '1h',
    heartbeatTimeout: '30s',
    summary: 'apply the state of a run to all its clients',
    retry: { initialInterval: '500ms', backoffCoefficient: 2, maximumInterval: '10s' },
  });
  let isChanged = false;
  setHandler(defineSignal('changed'), () => {
    isChanged = true;
  });
  let [cancelled, due, forgotten] = [0, 0, 0];
  for (let round = 0; round < maxRounds; round++) {
    isChanged = false;
    const done = await followRun(runId);
    cancelled += done.cancelled;
    due += done.due;
    forgotten += done.forgotten;
    setCurrentDetails(
      `The run is ${done.state}. Cancelled ${cancelled} notifications, made ${due} due, forgot ${forgotten} segments. ` +
        `${done.left} have an attempt in flight.`,
    );
    if (done.left > 0) await condition(() => isChanged, pauseMs);
    else if (!isChanged) return;
  }
}
