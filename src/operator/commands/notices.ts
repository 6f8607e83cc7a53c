import { Argument, type Command } from 'commander';
import type { InSession } from '../inSession.js';

const actions = () => import('../actions/notices.js');

export function addNoticesCommands(program: Command, inSession: InSession): void {
  const whose = () => new Argument('<account>', "the account's id, or platform");
  const notices = program.command('notices').description('the URLs for notices about endpoints and secrets');

  notices
    .command('show')
    .description("show the URL for an account's notices, and the state of its endpoint")
    .addArgument(whose())
    .action(inSession(actions, ({ noticesShow }) => noticesShow));

  notices
    .command('rotate-secret')
    .description("replace the signing secret of an account's notices; the old one also signs for 24 h")
    .addArgument(whose())
    .option('--now', 'the old one and every earlier one end immediately')
    .action(inSession(actions, ({ noticesRotateSecret }) => noticesRotateSecret));
}
