import { type Command, InvalidArgumentError } from 'commander';
import type { InSession } from '../inSession.js';

const actions = () => import('../actions/account.js');

export function addAccountCommands(program: Command, inSession: InSession): void {
  const account = program
    .command('account')
    .description('manage accounts of media companies and of the platform');

  account
    .command('create')
    .description('create an account; its secret is shown only once')
    .requiredOption('--name <name>', 'name of the company')
    .option('--scope <scope>', 'may be given several times (default: push_notifications)', collect)
    .option('--platform', 'create an account for the platform, with the scope enrichments')
    .action(inSession(actions, ({ accountCreate }) => accountCreate));

  account
    .command('list')
    .description('list every account, without secrets')
    .action(inSession(actions, ({ accountList }) => accountList));

  account
    .command('rotate-secret')
    .description('make a new client secret, shown only once; the old one stays valid for 24 h')
    .argument('<id>', 'the account')
    .option('--now', 'the old secret and every token end immediately')
    .action(inSession(actions, ({ accountRotateSecret }) => accountRotateSecret));

  account
    .command('set')
    .description('replace the scopes of an account; removing one ends every token immediately')
    .argument('<id>', 'the account')
    .requiredOption('--scope <scope>', 'a scope that it keeps or gets; may be given several times', collect)
    .action(inSession(actions, ({ accountSet }) => accountSet));

  addSwitch(
    'disable',
    'end the tokens of an account immediately and hold its clients as if they were paused',
  );
  addSwitch(
    'enable',
    'let an account ask for tokens again; deliveries to its clients go on, ended tokens stay ended',
  );

  function addSwitch(verb: 'disable' | 'enable', description: string): void {
    account
      .command(verb)
      .description(description)
      .argument('<id>', 'the account')
      .action(
        inSession(
          actions,
          ({ accountSwitch }) =>
            (operator, id: string) =>
              accountSwitch(operator, id, verb),
        ),
      );
  }
}

function collect(value: string, earlier: string[] = []): string[] {
  // RFC 6749, section 3.3; an empty text would be no scope, and a space would make two.
  if (!/^[!#-[\]-~]{1,64}$/.test(value)) {
    throw new InvalidArgumentError('A scope is 1 to 64 printable ASCII characters without a space, " or \\.');
  }
  return [...earlier, value];
}
