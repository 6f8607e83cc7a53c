import type { Command } from 'commander';
import type { InSession } from '../inSession.js';

const actions = () => import('../actions/notices.js');

export function addNoticesCommands(program: Command, inSession: InSession): void {
  const notices = program
    .command('notices')
    .description('the URLs of accounts for notices about their endpoints and secrets');

  notices
    .command('show')
    .description("show an account's URL for notices, and whether its receiver accepts them")
    .argument('<account>', 'the account')
    .action(inSession(actions, ({ noticesShow }) => noticesShow));

  notices
    .command('rotate-secret')
    .description("replace the signing secret of an account's notices; the old one also signs for 24 h")
    .argument('<account>', 'the account')
    .option('--now', 'the old one and every earlier one end immediately')
    .action(inSession(actions, ({ noticesRotateSecret }) => noticesRotateSecret));
}
