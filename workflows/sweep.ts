import { proxyActivities, setCurrentDetails, workflowInfo } from '@temporalio/workflow';
import type { Activities } from '../activities/index.js';
import { upkeepQueueOf } from '../src/temporal/workflowIds.js';

/** Starts catch-up for clients that are owed something overdue. A schedule runs it every 15 seconds. */
export async function sweep(): Promise<void> {
  const { sweepOwedClients } = proxyActivities<Activities>({
    taskQueue: upkeepQueueOf(workflowInfo().taskQueue),
    scheduleToStartTimeout: '3m',
    startToCloseTimeout: '5m',
    heartbeatTimeout: '10s',
    summary: 'find clients that are owed something while nothing works on it',
    retry: { maximumAttempts: 3 },
  });
  const { looked, woken, replaced } = await sweepOwedClients();
  setCurrentDetails(`Read ${looked} clients: woke catch-up for ${woken}, replaced ${replaced}.`);
}
