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

/** The sweep goes on with what is left after so many rounds: more than a lease has seconds. */
const maxRounds = 60;
const pauseMs = 2000;

/**
 * Has what an analysis run is owed follow the state that an operator gave it: cancelled, paused, or due again. Does so anew
 * when the state changes meanwhile, and until the attempts that were under way have ended.
 */
export async function run({ runId }: { runId: string }): Promise<void> {
  const { followRun } = proxyActivities<Activities>({
    taskQueue: upkeepQueueOf(workflowInfo().taskQueue),
    startToCloseTimeout: '1h',
    heartbeatTimeout: '30s',
    summary: 'bring all clients of a run to its state',
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
        `${done.left} are held by an attempt.`,
    );
    if (done.left > 0) await condition(() => isChanged, pauseMs);
    else if (!isChanged) return;
  }
}
