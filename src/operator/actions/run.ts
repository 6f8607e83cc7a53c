import { presentRun } from '../../api/endpoints/runs/presentRun.js';
import { createLogger } from '../../log.js';
import { messageOf } from '../../messageOf.js';
import { changeRun, type RunChange } from '../../redis/runs/change.js';
import { progressOf } from '../../redis/runs/progress.js';
import { getRun, newestRuns, type Run, sumRun } from '../../redis/runs/runs.js';
import { signalRun } from '../../temporal/runs.js';
import { markClients } from '../../upkeep/runs.js';
import type { Operator } from '../operator.js';
import { Refused } from '../refused.js';
import { fromNow } from '../terminal/moment.js';
import { facts, table } from '../terminal/table.js';

export async function runList(operator: Operator, { limit }: { limit: number }): Promise<void> {
  const db = await operator.db();
  const found: ReturnType<typeof presentRun>[] = [];
  for (const runId of await newestRuns(db, limit)) {
    const one = await getRun(db, runId);
    if (one !== undefined) found.push(presentRun(one, await sumRun(db, runId)));
  }
  operator.answer(found, () =>
    table(
      ['RUN', 'STATE', 'FIRST EVENT', 'CLIENTS', 'ACCEPTED', 'OWED', 'DELIVERED', 'FAILED', 'CANCELLED'],
      found.map((r) => [
        r.run_id,
        r.state,
        fromNow(Date.parse(r.first_event_at)),
        ...[r.clients, r.accepted, r.owed, r.delivered, r.failed, r.cancelled],
      ]),
      'There are no runs.',
    ),
  );
}

export async function runShow(operator: Operator, runId: string): Promise<void> {
  const found = await requireRun(operator, runId);
  const db = await operator.db();
  const shown = presentRun(found, await sumRun(db, runId), await progressOf(db, runId));
  operator.answer(shown, () => {
    const { progress = [], ...rest } = shown;
    const steps = progress.map((p) => [p.at, p.accepted, p.owed, p.delivered, p.failed, p.cancelled]);
    const head = ['AT', 'ACCEPTED', 'OWED', 'DELIVERED', 'FAILED', 'CANCELLED'];
    return `${facts(rest)}\n\n${table(head, steps, 'The sweep notes its progress every minute.')}`;
  });
}

/** Changes the state and marks the clients; the run's workflow does the rest, and the sweep starts it if it is missing. */
export async function runChange(
  operator: Operator,
  runId: string,
  verb: string,
  to: RunChange,
): Promise<void> {
  const db = await operator.db();
  const changed = await changeRun(db, runId, to);
  if (changed.outcome === 'unknown') throw unknownRun(runId);
  const { outcome, before } = changed;
  if (outcome === 'refused' && before === 'cancelled')
    throw new Refused(`${runId} is cancelled and stays cancelled.`);
  if (outcome === 'refused') throw new Refused(`${runId} is ${before}: cancel it first.`);
  const run = await requireRun(operator, runId);
  const { counts } = await sumRun(db, runId);
  await operator.record({
    what: `run ${verb}`,
    target: runId,
    before: { state: before, owed: counts.owed },
    after: { state: run.state },
  });
  await markClients({ db, log: createLogger('silent', 'operator') }, run);
  await startFollowing(operator, runId);
  const answer = { run_id: runId, previous_state: before, state: run.state, owed: counts.owed };
  operator.answer(answer, () => `${runId} is ${run.state} (was ${before}); ${saidOf[to](counts.owed)}`);
}

const saidOf: Record<RunChange, (owed: number) => string> = {
  active: (owed) => `${owed} notifications become due.`,
  paused: (owed) => `${owed} notifications wait.`,
  cancelled: (owed) => `${owed} notifications are being cancelled: see run show.`,
  forgotten: () => 'its segments are being forgotten: see run show.',
};

async function startFollowing(operator: Operator, runId: string): Promise<void> {
  try {
    await signalRun(await operator.temporal(), runId, operator.config().TASK_QUEUE);
  } catch (err) {
    operator.warn(
      `No notification of the run is sent, but the rest of the change waits for Temporal; the sweep starts it. ${messageOf(err)}`,
    );
  }
}

async function requireRun(operator: Operator, runId: string): Promise<Run> {
  const found = await getRun(await operator.db(), runId);
  if (found === undefined) throw unknownRun(runId);
  return found;
}

const unknownRun = (runId: string) =>
  new Refused(`There is no run ${runId}: no event named it, or it is no longer kept.`);
