import { InvalidArgumentError } from 'commander';
import {
  type Account,
  createAccount,
  listAccounts,
  rotateSecret,
  setDisabled,
  setScopes,
} from '../../redis/records/accounts.js';
import { listClients } from '../../redis/records/clients.js';
import { type AddCommand, type Operator, requireAccount } from '../operator.js';
import { facts, table } from '../terminal/table.js';

export function addAccountCommands(add: AddCommand): void {
  add('create', 'create an account; its secret is shown only once', create)
    .requiredOption('--name <name>', 'name of the company')
    .option('--scope <scope>', 'may be given several times (default: push_notifications)', collect)
    .option('--platform', 'create an account for the platform, with the scope enrichments');
  add('list', 'list every account, without secrets', list);
  add('rotate-secret <id>', 'make a new client secret; the old one stays valid for 24 h', rotate).option(
    '--now',
    'the old secret and every token end immediately',
  );
  add('set <id>', 'replace the scopes of an account; removing one ends every token', set).requiredOption(
    '--scope <scope>',
    'a scope that it keeps or gets; may be given several times',
    collect,
  );
  add('disable <id>', 'end the tokens of an account and hold its clients like paused ones', disable);
  add('enable <id>', 'let an account ask for tokens again; deliveries go on', enable);
}

function collect(value: string, earlier: string[] = []): string[] {
  // RFC 6749, section 3.3; an empty text would be no scope, and a space would make two.
  if (!/^[!#-[\]-~]{1,64}$/.test(value)) {
    throw new InvalidArgumentError('A scope is 1 to 64 printable ASCII characters without a space, " or \\.');
  }
  return [...earlier, value];
}

async function create(
  operator: Operator,
  wanted: { name: string; scope?: string[]; platform?: boolean },
): Promise<void> {
  const { name: given, scope = [], platform = false } = wanted;
  const created = await operator.change((db) => createAccount(db, { name: given, scopes: scope, platform }));
  const { account_id, name, client_id, client_secret, scopes } = created;
  await operator.record('account create', account_id, null, { name, client_id, scopes });
  operator.answer({ account_id, name, client_id, client_secret, scopes }, () =>
    withSecret({ account_id, name, client_id, client_secret, scopes: scopes.join(' ') }),
  );
}

const withSecret = (shown: Record<string, string>): string =>
  `${facts(shown)}\n\nThe client_secret is shown only once: store it now.`;

async function list(operator: Operator): Promise<void> {
  const accounts = (await listAccounts(await operator.db())).map(present);
  operator.answer(accounts, () =>
    table(
      ['ACCOUNT', 'NAME', 'CLIENT ID', 'SCOPES', 'STATE'],
      accounts.map(({ account_id, name, client_id, scopes, disabled }) => {
        return [account_id, name, client_id, scopes.join(' '), disabled ? 'disabled' : 'enabled'];
      }),
      'There are no accounts yet: account create --name NAME',
    ),
  );
}

async function rotate(operator: Operator, id: string, { now = false }: { now?: boolean }): Promise<void> {
  const { clientId } = await requireAccount(operator, id);
  const { client_secret } = await operator.change((db) => rotateSecret(db, id, { now }));
  await operator.record('account rotate-secret', id, null, { old_one_ends: now ? 'now' : 'in 24 h' });
  const rotated = { account_id: id, client_id: clientId, client_secret };
  const old = now ? 'The old secret and every token have ended.' : 'The old secret stays valid for 24 h.';
  operator.answer(rotated, () => `${withSecret(rotated)}\n${old}`);
}

async function set(operator: Operator, id: string, { scope }: { scope: string[] }): Promise<void> {
  const before = await requireAccount(operator, id);
  const scopes = [...new Set(scope)];
  await operator.change((db) => setScopes(db, id, scopes));
  await operator.record('account set', id, { scopes: before.scopes }, { scopes });
  const ended = before.scopes.some((had) => !scopes.includes(had));
  operator.answer(
    { account_id: id, previous_scopes: before.scopes, scopes, tokens_ended: ended },
    () =>
      `${before.name} (${id}) has the scopes ${scopes.join(' ')}.${ended ? ' Every token has ended.' : ''}`,
  );
}

const disable = (operator: Operator, id: string) => setTo(operator, id, true);
const enable = (operator: Operator, id: string) => setTo(operator, id, false);

async function setTo(operator: Operator, id: string, disabled: boolean): Promise<void> {
  const before = await requireAccount(operator, id);
  await operator.change((db) => setDisabled(db, id, disabled));
  await operator.record(
    `account ${disabled ? 'disable' : 'enable'}`,
    id,
    { disabled: before.disabled },
    { disabled },
  );
  const clients = await listClients(await operator.db(), id);
  for (const { clientToken } of clients) await operator.wake(clientToken);
  operator.answer(
    { account_id: id, disabled, clients: clients.length },
    () => `${before.name} (${id}) is ${disabled ? 'disabled' : 'enabled'}; clients: ${clients.length}.`,
  );
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
