import type { Command } from 'commander';
import type { InSession } from '../inSession.js';

const actions = () => import('../actions/watch.js');

export function addWatchCommand(program: Command, inSession: InSession): void {
  program
    .command('watch')
    .description('show rates, lag, worst endpoints and whether it is us or them, every 2 s until Ctrl-C')
    .option('--once', 'look once, for 2 s')
    .addHelpText(
      'after',
      '\nAt a terminal the screen is redrawn; elsewhere each look is a line. --json: one value a line.',
    )
    .action(inSession(actions, ({ watch }) => watch));
}
