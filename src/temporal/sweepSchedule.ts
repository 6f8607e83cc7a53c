import { type Client, ScheduleAlreadyRunning, ScheduleOverlapPolicy } from '@temporalio/client';

/** Makes sure that the sweep runs every minute; every worker does so when it starts. */
export async function ensureSweepSchedule(temporal: Client, taskQueue: string): Promise<void> {
  try {
    await temporal.schedule.create({
      scheduleId: `sweep/${taskQueue}`,
      spec: { intervals: [{ every: '1m' }] },
      policies: { overlap: ScheduleOverlapPolicy.SKIP, catchupWindow: '1m' },
      action: {
        type: 'startWorkflow',
        workflowType: 'sweep',
        workflowId: `sweep/${taskQueue}`,
        taskQueue,
        args: [],
        workflowExecutionTimeout: '10m',
      },
      state: {
        note: 'Starts catch-up for clients that are owed something and have nobody working on it.',
        // Where Temporal's store was lost nobody works on anything.
        triggerImmediately: true,
      },
    });
  } catch (err) {
    if (!(err instanceof ScheduleAlreadyRunning)) throw err;
  }
}
