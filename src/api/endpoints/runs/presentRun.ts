import type { Progress } from '../../../redis/runs/progress.js';
import type { Run, RunSums } from '../../../redis/runs/runs.js';
import { presentTime } from '../presentTime.js';

/** Shows a run to the platform and to operators. */
export function presentRun(run: Run, { counts, clients, forgotten }: RunSums, progress?: Progress[]) {
  return {
    run_id: run.runId,
    state: run.state,
    ...(run.stateAt !== undefined && { state_since: presentTime(run.stateAt) }),
    first_event_at: presentTime(run.firstEventAt),
    clients,
    ...counts,
    forgotten_segments: forgotten,
    ...(progress && { progress: progress.map(({ at, ...then }) => ({ at: presentTime(at), ...then })) }),
  };
}
