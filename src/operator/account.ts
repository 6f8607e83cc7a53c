/** Accounts, their credentials and scopes, and links to their console. */
import { InvalidArgumentError } from 'commander';
import type { AccountId } from '../ids.js';
import {
  type Account,
  accountIdOf,
  createAccount,
  defaultScopes,
  getAccount,
  listAccounts,
  platformScope,
  rotateSecret,
  setDisabled,
  setScopes,
  signingSecretsScope,
} from '../redis/records/accounts.js';
import { getClient, listClients } from '../redis/records/clients.js';
import {
  type ConsoleAccess,
  createConsoleLink,
  endConsoleSessions,
} from '../redis/records/consoleSessions.js';
import { type AddCommand, type Operator, Refused, requireAccount } from './session.js';
import { facts, moment, table } from './terminal.js';

export function addAccountCommands(add: AddCommand): void {
  add('create', 'create an account; its secret is shown only once', create)
    .requiredOption('--name <name>', 'name of the company')
    .option('--scope <scope>', 'may be given several times (default: push_notifications)', collectScopes)
    .option('--platform', 'create an account for the platform, with the scope enrichments');
  add('list', 'list every account, without secrets', list);
  add('rotate-secret <id>', 'make a new client secret; the old one stays valid for 24 h', rotate).option(
    '--now',
    'the old secret and every token end immediately',
  );
  add('set <id>', 'replace the scopes of an account; removing one ends every token', set).requiredOption(
    '--scope <scope>',
    'a scope that it keeps or gets; may be given several times',
    collectScopes,
  );
  add('disable <id>', 'end the tokens of an account and hold its clients like paused ones', disable);
  add('enable <id>', 'let an account ask for tokens again; deliveries go on', enable);
}

export function addConsoleCommand(add: AddCommand): void {
  const does = "print a link that opens an account's console once, within 15 minutes";
  add('console <account-or-client>', does, consoleLink)
    .option('--read', 'the session may only look, not change or send anything')
    .option('--end', 'end every session and unused link of the account instead');
}

const scopes = [...defaultScopes, platformScope, signingSecretsScope];

/** A scope that nothing asks for would only take the others away from an account, and end its tokens. */
function collectScopes(given: string, earlier: string[] = []): string[] {
  if (scopes.includes(given)) return [...new Set([...earlier, given])];
  const meant = scopes.find((scope) => scope.slice(0, 4) === given.slice(0, 4).toLowerCase());
  const suggestion = meant === undefined ? '' : `Did you mean ${meant}? `;
  throw new InvalidArgumentError(`${suggestion}The scopes are ${scopes.join(', ')}.`);
}

async function create(
  operator: Operator,
  wanted: { name: string; scope?: string[]; platform?: boolean },
): Promise<void> {
  const { name, scope = [], platform = false } = wanted;
  const namesakes = (await listAccounts(await operator.db())).filter((account) => account.name === name);
  const created = await operator.change((db) => createAccount(db, { name, scopes: scope, platform }));
  const { account_id, client_id, scopes } = created;
  await operator.record('account create', account_id, null, { name, client_id, scopes });
  if (namesakes.length > 0) {
    const others = namesakes.map(({ accountId }) => accountId).join(', ');
    operator.warn(
      `An account of this name was there before: ${others}. Now there are ${namesakes.length + 1}.`,
    );
  }
  operator.answer(created, () => withSecret({ ...created, scopes: scopes.join(' ') }));
}

const withSecret = (shown: Record<string, string>): string =>
  `${facts(shown)}\n\nThe client_secret is shown only once: store it now.`;

async function list(operator: Operator): Promise<void> {
  const accounts = (await listAccounts(await operator.db())).map((account) => ({
    account_id: account.accountId,
    name: account.name,
    client_id: account.clientId,
    scopes: account.scopes,
    disabled: account.disabled,
  }));
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

async function set(operator: Operator, id: string, { scope: scopes }: { scope: string[] }): Promise<void> {
  const before = await requireAccount(operator, id);
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
  const command = `account ${disabled ? 'disable' : 'enable'}`;
  await operator.record(command, id, { disabled: before.disabled }, { disabled });
  const clients = await listClients(await operator.db(), id);
  for (const { clientToken } of clients) await operator.wake(clientToken);
  operator.answer(
    { account_id: id, disabled, clients: clients.length },
    () => `${before.name} (${id}) is ${disabled ? 'disabled' : 'enabled'}; clients: ${clients.length}.`,
  );
}

async function consoleLink(
  operator: Operator,
  named: string,
  { read = false, end = false }: { read?: boolean; end?: boolean },
): Promise<void> {
  const { accountId, generation, scopes, disabled } = await knownAccount(operator, named);
  if (end) return await endSessions(operator, accountId);
  if (disabled) throw new Refused('The account is disabled.');
  const access: ConsoleAccess = read ? 'read' : 'full';
  // Recorded first, so that no link exists without a record.
  await operator.record('console', accountId, null, { access });
  const origin = new URL(operator.config().PUBLIC_URL ?? operator.api()).origin;
  const grant = { accountId, generation, scopes, access };
  const link = await createConsoleLink(await operator.db(), origin, grant);
  const answer = {
    account_id: accountId,
    access,
    url: link.url,
    expires_at: moment(link.expiresAtMs),
  };
  operator.answer(answer, () => facts(answer));
}

async function endSessions(operator: Operator, accountId: AccountId): Promise<void> {
  await operator.record('console end', accountId, null, null);
  await operator.change((db) => endConsoleSessions(db, accountId));
  const words = 'Every session and link of the account has ended.';
  operator.answer({ account_id: accountId, ended: true }, () => words);
}

/** @throws Refused */
async function knownAccount(operator: Operator, named: string): Promise<Account> {
  const db = await operator.db();
  const ids = [named, accountIdOf(named), (await getClient(db, named))?.accountId];
  for (const id of ids) {
    const account = id === undefined ? undefined : await getAccount(db, id);
    if (account !== undefined) return account;
  }
  throw new Refused(`There is no account and no client ${named}.`);
}
