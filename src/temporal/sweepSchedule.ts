import { isDeepStrictEqual } from 'node:util';
import {
  type Client,
  ScheduleAlreadyRunning,
  type ScheduleDescription,
  type ScheduleHandle,
  ScheduleNotFoundError,
  ScheduleOverlapPolicy,
} from '@temporalio/client';
import type { Logger } from '../log.js';
import { workflowIds } from './workflowIds.js';

const note = 'Starts catch-up for clients that are owed something and have nobody working on it.';

/** Of the schedule and of its workflow. */
const scheduleId = (taskQueue: string): string => workflowIds(taskQueue).sweep;

/** What the schedule is meant to be; a release that changes it finds the schedule of the one before, and mends it. */
function wanted(taskQueue: string) {
  return {
    spec: { intervals: [{ every: 60_000, offset: 0 }] },
    policies: { overlap: ScheduleOverlapPolicy.SKIP, catchupWindow: 60_000, pauseOnFailure: false },
    action: {
      type: 'startWorkflow' as const,
      workflowType: 'sweep',
      workflowId: scheduleId(taskQueue),
      taskQueue,
      args: [],
      workflowExecutionTimeout: 600_000,
    },
  };
}

/** Guards the schedule that starts the sweep every minute. */
export interface SweepSchedule {
  /** Makes it where there is none and mends it where it is not as it should be; logs what it did. @throws what Temporal throws */
  ensure(): Promise<void>;
  /** As last seen: somebody has paused it, and the sweep does not run. Undefined where the last look failed. */
  isPaused(): boolean | undefined;
}

/**
 * Every worker looks when it starts and each minute. A pause is a person's decision, with a reason in its note: it is
 * told and left. Anything else that differs (interval, policies, action, a limit of runs) is put right, also under a pause.
 */
export function createSweepSchedule(temporal: Client, taskQueue: string, log: Logger): SweepSchedule {
  const handle = temporal.schedule.getHandle(scheduleId(taskQueue));
  let paused: boolean | undefined;
  /** What was said last: a pause of days is one line of each worker. */
  let told: string | undefined;
  return {
    async ensure() {
      const found = await describe(handle).catch((err: unknown) => {
        paused = undefined;
        throw err;
      });
      paused = found?.state.paused ?? false;
      tell(paused ? (found?.state.note ?? '') : undefined);
      if (found === undefined) await make(temporal, taskQueue);
      else await mend(handle, found, taskQueue, log);
    },
    isPaused: () => paused,
  };

  /** @param reason why it is paused; undefined: it is not */
  function tell(reason: string | undefined): void {
    if (reason !== undefined && reason !== told) {
      log.error({ note: reason }, 'the schedule of the sweep is paused: nobody looks for what is owed');
    } else if (reason === undefined && told !== undefined) {
      log.info('the schedule of the sweep is no longer paused');
    }
    told = reason;
  }
}

async function describe(handle: ScheduleHandle): Promise<ScheduleDescription | undefined> {
  try {
    return await handle.describe();
  } catch (err) {
    if (err instanceof ScheduleNotFoundError) return undefined;
    throw err;
  }
}

async function make(temporal: Client, taskQueue: string): Promise<void> {
  try {
    await temporal.schedule.create({
      scheduleId: scheduleId(taskQueue),
      ...wanted(taskQueue),
      // Where Temporal's store was lost nobody works on anything.
      state: { note, triggerImmediately: true },
    });
  } catch (err) {
    // Another worker was faster.
    if (!(err instanceof ScheduleAlreadyRunning)) throw err;
  }
}

async function mend(
  handle: ScheduleHandle,
  found: ScheduleDescription,
  taskQueue: string,
  log: Logger,
): Promise<void> {
  const outdated = differences(found, taskQueue);
  if (outdated.length === 0) return;
  // It asks anew: what somebody has paused meanwhile stays paused, with its reason.
  await handle.update(({ state }) => ({
    ...wanted(taskQueue),
    state: state.paused ? { paused: true, ...(state.note !== undefined && { note: state.note }) } : { note },
  }));
  log.warn({ outdated }, 'the schedule of the sweep was not as it should be; it is mended');
}

/** Names the parts of a schedule that are not as wanted. */
function differences({ spec, policies, action, state }: ScheduleDescription, taskQueue: string): string[] {
  const meant = wanted(taskQueue);
  const { calendars = [], intervals = [], skip = [], startAt, endAt, jitter = 0 } = spec;
  const { workflowType, workflowId, args = [], workflowExecutionTimeout } = action;
  const same = {
    interval: isDeepStrictEqual(intervals, meant.spec.intervals),
    calendar: calendars.length === 0 && skip.length === 0 && !startAt && !endAt && jitter === 0,
    policies: isDeepStrictEqual(policies, meant.policies),
    workflow: workflowType === meant.action.workflowType && workflowId === meant.action.workflowId,
    'task queue': action.taskQueue === taskQueue,
    arguments: args.length === 0,
    timeout: workflowExecutionTimeout === meant.action.workflowExecutionTimeout,
    'number of runs': state.remainingActions === undefined,
  };
  return Object.entries(same).flatMap(([part, isSame]) => (isSame ? [] : [part]));
}
