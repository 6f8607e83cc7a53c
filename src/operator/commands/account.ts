import { type Command, InvalidArgumentError } from 'commander';
import {
  type Account,
  createAccount,
  listAccounts,
  rotateSecret,
  setDisabled,
  setScopes,
} from '../../redis/records/accounts.js';
import { listClients } from '../../redis/records/clients.js';
import type { Operator } from '../operator.js';
import { requireAccount } from '../requireAccount.js';
import { facts, table } from '../terminal/table.js';

export function addAccountCommands(program: Command, operator: Operator): void {
  const account = program
    .command('account')
    .description('manage accounts of media companies and of the platform');

  account
    .command('create')
    .description('create an account; its secret is shown only once')
    .requiredOption('--name <name>', 'name of the company')
    .option('--scope <scope>', 'may be given several times (default: push_notifications)', collect)
    .option('--platform', 'create an account for the platform, with the scope enrichments')
    .action(async (wanted: { name: string; scope?: string[]; platform?: boolean }) => {
      const created = await createAccount(await operator.db(), {
        name: wanted.name,
        scopes: wanted.scope ?? [],
        platform: wanted.platform ?? false,
      });
      const { account_id, name, client_id, client_secret, scopes } = created;
      await operator.record({
        what: 'account create',
        target: account_id,
        before: null,
        after: { name, client_id, scopes },
      });
      operator.answer({ account_id, name, client_id, client_secret, scopes }, () =>
        [
          facts({ account_id, name, client_id, client_secret, scopes: scopes.join(' ') }),
          '',
          'The client_secret is shown only once: store it now.',
        ].join('\n'),
      );
    });

  account
    .command('list')
    .description('list every account, without secrets')
    .action(async () => {
      const accounts = (await listAccounts(await operator.db())).map(present);
      operator.answer(accounts, () =>
        table(
          ['ACCOUNT', 'NAME', 'CLIENT ID', 'SCOPES', 'STATE'],
          accounts.map((a) => [
            a.account_id,
            a.name,
            a.client_id,
            a.scopes.join(' '),
            a.disabled ? 'disabled' : 'enabled',
          ]),
          'There are no accounts yet: account create --name NAME',
        ),
      );
    });

  account
    .command('rotate-secret')
    .description('make a new client secret, shown only once; the old one stays valid for 24 h')
    .argument('<id>', 'the account')
    .option('--now', 'the old secret and every token end immediately')
    .action(async (id: string, { now = false }: { now?: boolean }) => {
      const { clientId } = await requireAccount(operator, id);
      const { client_secret } = await rotateSecret(await operator.db(), id, { now });
      await operator.record({
        what: 'account rotate-secret',
        target: id,
        before: null,
        after: { old_one_ends: now ? 'now' : 'in 24 h' },
      });
      const rotated = { account_id: id, client_id: clientId, client_secret };
      operator.answer(rotated, () =>
        [
          facts(rotated),
          '',
          now ? 'The old secret and every token have ended.' : 'The old secret stays valid for 24 h.',
          'The client_secret is shown only once: store it now.',
        ].join('\n'),
      );
    });

  account
    .command('set')
    .description('replace the scopes of an account; removing one ends every token immediately')
    .argument('<id>', 'the account')
    .requiredOption('--scope <scope>', 'a scope that it keeps or gets; may be given several times', collect)
    .action(async (id: string, { scope }: { scope: string[] }) => {
      const before = await requireAccount(operator, id);
      const scopes = [...new Set(scope)];
      await setScopes(await operator.db(), id, scopes);
      await operator.record({
        what: 'account set',
        target: id,
        before: { scopes: before.scopes },
        after: { scopes },
      });
      const ended = before.scopes.some((had) => !scopes.includes(had));
      operator.answer(
        { account_id: id, previous_scopes: before.scopes, scopes, tokens_ended: ended },
        () =>
          `${before.name} (${id}) has the scopes ${scopes.join(' ')}.${ended ? ' Every token has ended.' : ''}`,
      );
    });

  addSwitch(
    'disable',
    true,
    'end the tokens of an account immediately and hold its clients as if they were paused',
  );
  addSwitch(
    'enable',
    false,
    'let an account ask for tokens again; deliveries to its clients go on, ended tokens stay ended',
  );

  function addSwitch(verb: string, disabled: boolean, description: string): void {
    account
      .command(verb)
      .description(description)
      .argument('<id>', 'the account')
      .action(async (id: string) => {
        const before = await requireAccount(operator, id);
        const db = await operator.db();
        await setDisabled(db, id, disabled);
        await operator.record({
          what: `account ${verb}`,
          target: id,
          before: { disabled: before.disabled },
          after: { disabled },
        });
        const clients = await listClients(db, id);
        for (const { clientToken } of clients) await operator.wake(clientToken);
        operator.answer(
          { account_id: id, disabled, clients: clients.length },
          () => `${before.name} (${id}) is ${disabled ? 'disabled' : 'enabled'}; clients: ${clients.length}.`,
        );
      });
  }
}

function present(account: Account) {
  return {
    account_id: account.accountId,
    name: account.name,
    client_id: account.clientId,
    scopes: account.scopes,
    disabled: account.disabled,
  };
}

function collect(value: string, earlier: string[] = []): string[] {
  // RFC 6749, section 3.3; an empty text would be no scope, and a space would make two.
  if (!/^[!#-[\]-~]{1,64}$/.test(value)) {
    throw new InvalidArgumentError('A scope is 1 to 64 printable ASCII characters without a space, " or \\.');
  }
  return [...earlier, value];
}
