import type { Command } from 'commander';
import type { InSession } from '../inSession.js';

const actions = () => import('../actions/status.js');

export function addStatusCommand(program: Command, inSession: InSession): void {
  program
    .command('status')
    .description('say whether it is us or them, and show owed notifications over all clients')
    .action(inSession(actions, ({ status }) => status));
}
