import { mapInPages } from '../mapInPages.js';
import { agedRuns, keepRunLonger } from '../redis/runs/age.js';
import { applyToClient, changedRuns, endChange, forgetAtClient } from '../redis/runs/change.js';
import { dropRun } from '../redis/runs/drop.js';
import { holdRun } from '../redis/runs/hold.js';
import { isProgressDue, noteProgress, someOpenRuns } from '../redis/runs/progress.js';
import { clientsOfRun, getRun, type Run, type RunState, sumRun } from '../redis/runs/runs.js';
import { signalRun } from '../temporal/runs.js';
import { besideOthers } from './brokenClients.js';
import type { ActivityDeps } from './deps.js';

/** The result of one walk over the clients of a run. */
export interface Followed {
  state: RunState | 'gone';
  cancelled: number;
  due: number;
  /** Segments. */
  forgotten: number;
  /** Notifications of a cancelled run with an attempt in flight: they end with it. */
  left: number;
}

/** Clients handled concurrently. */
const concurrency = 8;
/** Runs of one sweep; the next sweep takes others. */
const runsOfASweep = 50;

/**
 * Makes every client of a run follow its state: first marks them all, so that a run that is not active sends nothing more,
 * then cancels, parks or makes due the owed notifications of each, page by page. Safe to repeat and to interrupt.
 */
export async function followRun(deps: ActivityDeps, runId: string, heartbeat: () => void): Promise<Followed> {
  const { db } = deps;
  const run = await getRun(db, runId);
  const sum = { cancelled: 0, due: 0, forgotten: 0, left: 0 };
  if (run === undefined) {
    await endChange(db, runId, 0);
    return { state: 'gone', ...sum };
  }
  let [clients, done] = [0, 0];
  await markClients(deps, run, heartbeat);
  for await (const page of clientsOfRun(db, runId)) {
    clients += page.length;
    await mapInPages(page, concurrency, (clientToken) =>
      besideOthers(deps, clientToken, async () => {
        const { cancelled, due, inFlight } = await applyToClient(db, clientToken, runId, heartbeat);
        sum.cancelled += cancelled;
        sum.due += due;
        if (run.state === 'cancelled') sum.left += inFlight;
        for (let i = 0; i < cancelled; i++) deps.metrics.ended('cancelled');
        if (due > 0) await deps.catchUps.wake(clientToken, 0);
        if (run.forgotAt !== undefined)
          sum.forgotten += await forgetAtClient(db, clientToken, runId, heartbeat);
        done++;
      }),
    );
  }
  // The sweep tries a client with broken keys again.
  if (sum.left === 0 && done === clients) await endChange(db, runId, run.version);
  return { state: run.state, ...sum };
}

/** Marks a run's clients with its state, which each claim and take reads. */
export async function markClients(
  deps: Pick<ActivityDeps, 'db' | 'log'>,
  run: Run,
  heartbeat: () => void = () => undefined,
): Promise<void> {
  for await (const page of clientsOfRun(deps.db, run.runId)) {
    await mapInPages(page, concurrency, (clientToken) => {
      heartbeat();
      return besideOthers(deps, clientToken, () => holdRun(deps.db, clientToken, run));
    });
  }
}

/** Starts the workflows of changed runs if they are missing, records the progress of runs, and drops aged runs. */
export async function lookAfterRuns(deps: ActivityDeps, heartbeat: () => void): Promise<void> {
  const { db, temporal, taskQueue, log } = deps;
  for (const runId of await changedRuns(db, runsOfASweep)) {
    heartbeat();
    await signalRun(temporal, runId, taskQueue).catch((err: unknown) =>
      log.error({ err, run_id: runId }, 'cannot start the workflow of a run; the next sweep tries again'),
    );
  }
  for (const runId of await someOpenRuns(db, runsOfASweep)) {
    heartbeat();
    const run = await getRun(db, runId);
    if (run === undefined || !(await isProgressDue(db, runId, run.firstEventAt))) continue;
    await noteProgress(db, runId, (await sumRun(db, runId)).counts);
  }
  for (const runId of await agedRuns(db, runsOfASweep)) {
    heartbeat();
    const { counts } = await sumRun(db, runId);
    if (counts.owed > 0) await keepRunLonger(db, runId);
    else await dropRun(db, runId);
  }
}
