import type { Command } from 'commander';
import type { InSession } from '../inSession.js';
import { parseAnyClient } from './clientToken.js';

const actions = () => import('../actions/secrets.js');

export function addSecretsCommands(program: Command, inSession: InSession): void {
  const secrets = program.command('secrets').description('encrypt or rotate signing secrets');

  secrets
    .command('reencrypt')
    .description('encrypt every signing secret and request header with the first key of SECRETS_KEY')
    .action(inSession(actions, ({ secretsReencrypt }) => secretsReencrypt));

  secrets
    .command('rotate')
    .description("replace a client's signing secret; the old one also signs for 24 h")
    .argument('<token>', 'the client', parseAnyClient)
    .option('--now', 'the old one and every earlier one end immediately')
    .action(inSession(actions, ({ secretsRotate }) => secretsRotate));
}
