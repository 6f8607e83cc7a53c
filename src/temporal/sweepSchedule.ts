import { isDeepStrictEqual } from 'node:util';
import {
  type Client,
  ScheduleAlreadyRunning,
  type ScheduleDescription,
  ScheduleNotFoundError,
  ScheduleOverlapPolicy,
} from '@temporalio/client';
import type { Logger } from '../log.js';
import { upkeepPriority, workflowIds } from './workflowIds.js';

const note = 'Starts catch-up for clients that are owed something while nothing works on it.';

/** Which store the sweep reads: its workers need no argument. */
type Args = { store: string }[];

/** Says that another installation, with another store, uses this queue: each takes the other's work. `stores`: `storeIds` */
export function othersQueue(
  { action }: Pick<ScheduleDescription, 'action'>,
  stores: readonly string[],
): string | undefined {
  const [its] = (action.args ?? []) as Args;
  if (its === undefined || stores.length === 0 || stores.includes(its.store)) return undefined;
  return `Another installation, with another store, uses the task queue ${action.taskQueue}: each takes the other's events`;
}

export const giveOwnQueue = (scheduleId: string): string =>
  `Give each installation a TASK_QUEUE or a namespace of its own. If the other store is gone for good: temporal schedule delete --schedule-id ${scheduleId}`;

/**
 * Makes the guard of the schedule that starts the sweep every 15 seconds; each worker calls the guard at its start and
 * every 15 seconds. A pause is a person's decision, with a reason in its note: the guard logs the pause and leaves it. It
 * repairs every other difference (interval, policies, action, a limit of runs), even during a pause.
 */
export function createSweepSchedule(
  temporal: Client,
  taskQueue: string,
  log: Logger,
  storesOf: () => Promise<string[]> = async () => [],
) {
  /** A release that changes it finds the previous release's schedule and repairs it. */
  const wanted = {
    spec: { intervals: [{ every: 15_000, offset: 0 }] },
    policies: { overlap: ScheduleOverlapPolicy.SKIP, catchupWindow: 60_000, pauseOnFailure: false },
    action: {
      type: 'startWorkflow' as const,
      workflowType: 'sweep',
      workflowId: workflowIds(taskQueue).sweep,
      taskQueue,
      args: [] as Args,
      priority: upkeepPriority,
      workflowExecutionTimeout: 600_000,
    },
  };
  const scheduleId = wanted.action.workflowId;
  const handle = temporal.schedule.getHandle(scheduleId);
  let paused: boolean | undefined;
  let isTold = false;

  /** A pause is logged once by each worker. */
  function notePause(isPaused: boolean, reason?: string): void {
    if (isPaused && !paused) {
      log.error(
        { note: reason },
        'the schedule of the sweep is paused: owed assets that nothing works on are not found',
      );
    }
    if (paused && !isPaused) log.info('the schedule of the sweep is no longer paused');
    paused = isPaused;
  }

  async function create(): Promise<void> {
    // Temporal may have lost its store, and every catch-up with it.
    const state = { note, triggerImmediately: true };
    await temporal.schedule.create({ scheduleId, ...wanted, state }).catch((err: unknown) => {
      // Another worker was faster.
      if (!(err instanceof ScheduleAlreadyRunning)) throw err;
    });
  }

  async function repair(outdated: string[]): Promise<void> {
    // The state is read again: a pause that began meanwhile stays, with its reason.
    await handle.update(({ state }) => ({
      ...wanted,
      state: state.paused ? { paused: true, note: state.note } : { note },
    }));
    log.warn({ outdated }, 'the schedule of the sweep was outdated or changed; it is repaired');
  }

  /** Names the parts that differ. */
  function differences({ spec, policies, action, state }: ScheduleDescription): string[] {
    const { calendars = [], intervals = [], skip = [], startAt, endAt, jitter = 0 } = spec;
    const { workflowType, workflowId, args = [], workflowExecutionTimeout } = action;
    const same = {
      interval: isDeepStrictEqual(intervals, wanted.spec.intervals),
      calendar: calendars.length === 0 && skip.length === 0 && !startAt && !endAt && jitter === 0,
      policies: isDeepStrictEqual(policies, wanted.policies),
      workflow: workflowType === wanted.action.workflowType && workflowId === wanted.action.workflowId,
      'task queue': action.taskQueue === wanted.action.taskQueue,
      arguments: isDeepStrictEqual(args, wanted.action.args),
      timeout: workflowExecutionTimeout === wanted.action.workflowExecutionTimeout,
      'number of runs': state.remainingActions === undefined,
    };
    return Object.entries(same).flatMap(([part, isSame]) => (isSame ? [] : [part]));
  }

  return {
    /** Creates a missing schedule, repairs one that differs, and logs the differences. @throws errors of Temporal */
    async ensure() {
      const found = await handle.describe().catch((err: unknown) => {
        if (err instanceof ScheduleNotFoundError) return undefined;
        paused = undefined;
        throw err;
      });
      notePause(found?.state.paused ?? false, found?.state.note);
      const stores = await storesOf().catch(() => undefined);
      const its = found?.action.args as Args | undefined;
      wanted.action.args = stores?.slice(0, 1).map((store) => ({ store })) ?? its ?? [];
      const others = found && othersQueue(found, stores ?? []);
      if (others !== undefined && !isTold) log.error(`${others}. ${giveOwnQueue(scheduleId)}`);
      isTold = others !== undefined;
      if (isTold) return;
      if (found === undefined) return await create();
      const outdated = differences(found);
      if (outdated.length > 0) await repair(outdated);
    },
    /** Returns whether somebody had paused the schedule at the last check; undefined if the check failed. */
    isPaused: () => paused,
  };
}
