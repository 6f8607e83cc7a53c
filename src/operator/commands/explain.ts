import type { Command } from 'commander';
import type { InSession } from '../inSession.js';
import { parseAnyClient } from './clientToken.js';

const actions = () => import('../actions/explain.js');

export function addExplainCommand(program: Command, inSession: InSession): void {
  program
    .command('explain')
    .description('say why something was or was not sent for an asset')
    .argument('<token>', 'the client', parseAnyClient)
    .argument('<platform-id>', 'the asset')
    .action(inSession(actions, ({ explain }) => explain));
}
