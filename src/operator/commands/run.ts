import { Argument, type Command, InvalidArgumentError } from 'commander';
import { presentRun } from '../../api/endpoints/run.js';
import { runIdPattern } from '../../ids.js';
import { createLogger } from '../../log.js';
import { messageOf } from '../../messageOf.js';
import { changeRun, type RunChange } from '../../redis/runs/change.js';
import { progressOf } from '../../redis/runs/progress.js';
import { getRun, newestRuns, type Run, sumRun } from '../../redis/runs/runs.js';
import { signalRun } from '../../temporal/runs.js';
import { markClients } from '../../upkeep/runs.js';
import type { Operator } from '../operator.js';
import { parseLimit } from '../parseLimit.js';
import { Refused } from '../refused.js';
import { fromNow } from '../terminal/moment.js';
import { facts, table } from '../terminal/table.js';

export function addRunCommands(program: Command, operator: Operator): void {
  const run = program.command('run').description('analysis runs: show, pause, resume, cancel, forget');
  const ofRun = () => new Argument('<id>', 'the run').argParser(parseRunId);

  run
    .command('list')
    .description('list the runs with the newest events')
    .option('--limit <n>', 'at most this many', parseLimit(1000), 20)
    .action(async ({ limit }: { limit: number }) => {
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
    });

  run
    .command('show')
    .description('show the counts of a run, now and at earlier moments')
    .addArgument(ofRun())
    .action(async (runId: string) => {
      const found = await requireRun(operator, runId);
      const db = await operator.db();
      const shown = presentRun(found, await sumRun(db, runId), await progressOf(db, runId));
      operator.answer(shown, () => {
        const { progress = [], ...rest } = shown;
        const steps = progress.map((p) => [p.at, p.accepted, p.owed, p.delivered, p.failed, p.cancelled]);
        const head = ['AT', 'ACCEPTED', 'OWED', 'DELIVERED', 'FAILED', 'CANCELLED'];
        return `${facts(rest)}\n\n${table(head, steps, 'The sweep notes its progress every minute.')}`;
      });
    });

  const changes: [verb: string, to: RunChange, does: string][] = [
    ['pause', 'paused', 'hold the notifications of a run; other notifications go on'],
    ['resume', 'active', 'end a pause; waiting notifications become due'],
    [
      'cancel',
      'cancelled',
      'cancel the owed notifications of a run and refuse its further events; this cannot be undone',
    ],
    ['forget', 'forgotten', 'make the segments new again that a cancelled run was the first to bring'],
  ];
  for (const [verb, to, does] of changes) {
    run
      .command(verb)
      .description(does)
      .addArgument(ofRun())
      .action((runId: string) => change(operator, runId, verb, to));
  }
}

/** Changes the state and marks the clients; the run's workflow does the rest, and the sweep starts it if it is missing. */
async function change(operator: Operator, runId: string, verb: string, to: RunChange): Promise<void> {
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

function parseRunId(text: string): string {
  if (!runIdPattern.test(text))
    throw new InvalidArgumentError('A run id is 1 to 128 of A-Z a-z 0-9 . _ : -.');
  return text;
}
