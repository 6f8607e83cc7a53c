import type { Command } from 'commander';
import type { InSession } from '../inSession.js';

const actions = () => import('../actions/console.js');

export function addConsoleCommand(program: Command, inSession: InSession): void {
  program
    .command('console')
    .description("print a link that opens an account's console in a browser, once, within 15 minutes")
    .argument('<account-or-client>', 'an account id, a client id, or the client token of one of its sites')
    .option('--read', 'the session may only look, not change or send anything')
    .action(inSession(actions, ({ consoleLink }) => consoleLink));
}
