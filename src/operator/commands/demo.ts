import type { Command } from 'commander';
import type { InSession } from '../inSession.js';

const actions = () => import('../actions/demo.js');

export function addDemoCommand(program: Command, inSession: InSession): void {
  program
    .command('demo')
    .description('run the whole flow against the running service, with its own receiver')
    .action(inSession(actions, ({ demo }) => demo));
}
