import { Argument, type Command, InvalidArgumentError } from 'commander';
import { runIdPattern } from '../../ids.js';
import type { RunChange } from '../../redis/runs/change.js';
import type { InSession } from '../inSession.js';
import { parseLimit } from '../parseLimit.js';

const actions = () => import('../actions/run.js');

export function addRunCommands(program: Command, inSession: InSession): void {
  const run = program.command('run').description('analysis runs: show, pause, resume, cancel, forget');
  const ofRun = () => new Argument('<id>', 'the run').argParser(parseRunId);

  run
    .command('list')
    .description('list the runs with the newest events')
    .option('--limit <n>', 'at most this many', parseLimit(1000), 20)
    .action(inSession(actions, ({ runList }) => runList));

  run
    .command('show')
    .description('show the counts of a run, now and at earlier moments')
    .addArgument(ofRun())
    .action(inSession(actions, ({ runShow }) => runShow));

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
      .action(
        inSession(
          actions,
          ({ runChange }) =>
            (operator, runId: string) =>
              runChange(operator, runId, verb, to),
        ),
      );
  }
}

function parseRunId(text: string): string {
  if (!runIdPattern.test(text))
    throw new InvalidArgumentError('A run id is 1 to 128 of A-Z a-z 0-9 . _ : -.');
  return text;
}
