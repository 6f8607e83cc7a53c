import { type Command, InvalidArgumentError } from 'commander';
import type { Bound } from '../actions/client.js';
import type { InSession } from '../inSession.js';
import { parseAnyClient, parseClientToken } from './clientToken.js';

const actions = () => import('../actions/client.js');

export function addClientCommands(program: Command, inSession: InSession): void {
  const client = program
    .command('client')
    .description('manage clients: sites, apps and channels of an account');

  client
    .command('create')
    .description('create a client')
    .requiredOption('--account <id>', 'account that owns the client')
    .requiredOption('--name <name>', 'name of the client')
    .option('--token <token>', 'client token (default: random)', parseClientToken)
    .action(inSession(actions, ({ clientCreate }) => clientCreate));

  client
    .command('list')
    .description('list every client, or those of one account')
    .option('--account <id>', 'only of this account')
    .action(inSession(actions, ({ clientList }) => clientList));

  client
    .command('set')
    .description("change a client's bounds")
    .argument('<token>', 'the client', parseAnyClient)
    .option('--max-in-flight <n>', 'attempts in flight, or "default"', boundOrDefault)
    .option('--max-per-second <n>', 'attempts a second, or "default" (no limit)', boundOrDefault)
    .action(inSession(actions, ({ clientSet }) => clientSet));

  client
    .command('delete')
    .description(
      'delete a client with its URL, signing secrets and known segments, and cancel its owed notifications; its client token is never given out again',
    )
    .argument('<token>', 'the client', parseClientToken)
    .action(inSession(actions, ({ clientDelete }) => clientDelete));
}

function boundOrDefault(text: string): Bound {
  if (text === 'default') return { n: null };
  const n = Number(text);
  if (!Number.isSafeInteger(n) || n < 1) {
    throw new InvalidArgumentError('Give a whole number of at least 1, or "default".');
  }
  return { n };
}
