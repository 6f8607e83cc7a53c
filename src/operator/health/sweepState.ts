/** The schedule that starts the sweep every minute, as Temporal shows it. */
import type { Client } from '@temporalio/client';
import { workflowIds } from '../../temporal/workflowIds.js';
import { span } from '../terminal/moment.js';

export type SweepState =
  | { kind: 'absent' }
  | { kind: 'paused'; note: string }
  /** `ranAt`: when it was last started, or created; ms by Temporal's clock. */
  | { kind: 'late' | 'running'; ranAt: number };

/** Three starts missed. */
const lateMs = 210_000;

export async function readSweepState(temporal: Client, taskQueue: string): Promise<SweepState> {
  try {
    const { state, info } = await temporal.schedule.getHandle(workflowIds(taskQueue).sweep).describe();
    if (state.paused) return { kind: 'paused', note: state.note ?? '' };
    const started = info.recentActions.map((action) => action.takenAt.getTime());
    const ranAt = Math.max(info.createdAt.getTime(), info.lastUpdatedAt?.getTime() ?? 0, ...started);
    // While a long sweep runs, no other is started.
    const isLate = info.runningActions.length === 0 && Date.now() - ranAt > lateMs;
    return { kind: isLate ? 'late' : 'running', ranAt };
  } catch (err) {
    const { ScheduleNotFoundError } = await import('@temporalio/client');
    if (err instanceof ScheduleNotFoundError) return { kind: 'absent' };
    throw err;
  }
}

export function sweepInWords(sweep: SweepState): string {
  switch (sweep.kind) {
    case 'absent':
      return 'There is no schedule for the sweep; a worker creates it when it starts.';
    case 'paused':
      return `The schedule of the sweep is paused: ${sweep.note}`;
    case 'late':
      return `The sweep last ran ${span(Date.now() - sweep.ranAt)} ago; it is due every minute.`;
    case 'running':
      return `The sweep last ran ${span(Math.max(Date.now() - sweep.ranAt, 0))} ago.`;
  }
}
