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

const note = 'Starts catch-up for clients that are owed something while nothing works on it.';

/** The id of the schedule, and of its workflow. */
const scheduleId = (taskQueue: string): string => workflowIds(taskQueue).sweep;

/** Returns the schedule as it should be. A release that changes it finds the previous release's schedule and repairs it. */
function wanted(taskQueue: string) {
  return {
    spec: { intervals: [{ every: 15_000, offset: 0 }] },
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

/** Guards the schedule that starts the sweep every 15 seconds. */
export interface SweepSchedule {
  /** Creates a missing schedule, repairs one that differs, and logs the differences. @throws errors of Temporal */
  ensure(): Promise<void>;
  /** Whether somebody had paused the schedule at the last check. Undefined if the last check failed. */
  isPaused(): boolean | undefined;
}

/**
 * Makes the guard; every worker calls it when it starts and each minute. A pause is a person's decision, with a reason in
 * its note: the guard logs it and leaves it. It repairs every other difference (interval, policies, action, a limit of
 * runs), also during a pause.
 */
export function createSweepSchedule(temporal: Client, taskQueue: string, log: Logger): SweepSchedule {
  const handle = temporal.schedule.getHandle(scheduleId(taskQueue));
  let paused: boolean | undefined;
  /** The note of the last logged pause, so that each worker logs a long pause once. */
  let logged: string | undefined;
  return {
    async ensure() {
      const found = await describe(handle).catch((err: unknown) => {
        paused = undefined;
        throw err;
      });
      paused = found?.state.paused ?? false;
      logPause(paused ? (found?.state.note ?? '') : undefined);
      if (found === undefined) await create(temporal, taskQueue);
      else await mend(handle, found, taskQueue, log);
    },
    isPaused: () => paused,
  };

  /** @param reason why the schedule is paused; undefined: it is not paused */
  function logPause(reason: string | undefined): void {
    if (reason !== undefined && reason !== logged) {
      log.error(
        { note: reason },
        'the schedule of the sweep is paused: owed assets that nothing works on are not found',
      );
    } else if (reason === undefined && logged !== undefined) {
      log.info('the schedule of the sweep is no longer paused');
    }
    logged = reason;
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

async function create(temporal: Client, taskQueue: string): Promise<void> {
  try {
    await temporal.schedule.create({
      scheduleId: scheduleId(taskQueue),
      ...wanted(taskQueue),
      // Temporal may have lost its store, and every catch-up with it.
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
  // The state is read again: a pause that began meanwhile stays, with its reason.
  await handle.update(({ state }) => ({
    ...wanted(taskQueue),
    state: state.paused ? { paused: true, note: state.note } : { note },
  }));
  log.warn({ outdated }, 'the schedule of the sweep was outdated or changed; it is repaired');
}

/** Names the parts of a schedule that differ. */
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
