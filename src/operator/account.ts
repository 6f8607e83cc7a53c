/** Accounts, their credentials and scopes, and links to their console. */
import { InvalidArgumentError } from 'commander';
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
    .option('--scope <scope>', 'may be given several times (default: push_notifications)', collectScopes);
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

/** Refuses an unknown scope, which would only take the others away from an account and end its tokens. */
function collectScopes(given: string, earlier: string[] = []): string[] {
  if (scopes.includes(given)) return [...new Set([...earlier, given])];
  throw new InvalidArgumentError(`The scopes are ${scopes.join(', ')}.`);
}

async function create(operator: Operator, { name, scope }: { name: string; scope?: string[] }) {
  const before = (await listAccounts(await operator.db())).filter((account) => account.name === name);
  const created = await operator.change((db) => createAccount(db, { name, scopes: scope }));
  const { account_id, client_id, scopes } = created;
  await operator.record('account create', account_id, null, { name, client_id, scopes });
  const namesakes = before.map(({ accountId }) => accountId).join(', ');
  if (namesakes !== '') operator.warn(`An account of this name was there before: ${namesakes}.`);
  operator.answer(created, withSecret({ ...created, scopes: scopes.join(' ') }));
}

const withSecret = (shown: Record<string, string>): string =>
  `${facts(shown)}\n\nThe client_secret is shown only once: store it now.`;

async function list(operator: Operator) {
  const accounts = (await listAccounts(await operator.db())).map((account) => ({
    account_id: account.accountId,
    name: account.name,
    client_id: account.clientId,
    scopes: account.scopes,
    disabled: account.disabled,
  }));
  const rows = accounts.map((a) => {
    return [a.account_id, a.name, a.client_id, a.scopes.join(' '), a.disabled ? 'disabled' : 'enabled'];
  });
  const none = 'There are no accounts yet: account create --name NAME';
  operator.answer(accounts, table(['ACCOUNT', 'NAME', 'CLIENT ID', 'SCOPES', 'STATE'], rows, none));
}

async function rotate(operator: Operator, id: string, { now = false }: { now?: boolean }) {
  const { clientId } = await requireAccount(operator, id);
  const { client_secret } = await operator.change((db) => rotateSecret(db, id, { now }));
  await operator.record('account rotate-secret', id, null, { old_one_ends: now ? 'now' : 'in 24 h' });
  const rotated = { account_id: id, client_id: clientId, client_secret };
  const old = now ? 'The old secret and every token have ended.' : 'The old secret stays valid for 24 h.';
  operator.answer(rotated, `${withSecret(rotated)}\n${old}`);
}

async function set(operator: Operator, id: string, { scope: scopes }: { scope: string[] }) {
  const before = await requireAccount(operator, id);
  await operator.change((db) => setScopes(db, id, scopes));
  await operator.record('account set', id, { scopes: before.scopes }, { scopes });
  const tokens_ended = before.scopes.some((had) => !scopes.includes(had));
  const becomesAnother = before.scopes.includes(platformScope) !== scopes.includes(platformScope);
  const words = [`${before.name} (${id}) has the scopes ${scopes.join(' ')}.`];
  if (tokens_ended) words.push('Every token has ended.');
  if (becomesAnother) words.push('Its URL for notices, if it had set one, is removed.');
  operator.answer({ account_id: id, previous_scopes: before.scopes, scopes, tokens_ended }, words.join(' '));
}

const disable = (operator: Operator, id: string) => setTo(operator, id, true);
const enable = (operator: Operator, id: string) => setTo(operator, id, false);

async function setTo(operator: Operator, id: string, disabled: boolean) {
  const before = await requireAccount(operator, id);
  await operator.change((db) => setDisabled(db, id, disabled));
  const command = `account ${disabled ? 'disable' : 'enable'}`;
  await operator.record(command, id, { disabled: before.disabled }, { disabled });
  const clients = await listClients(await operator.db(), id);
  for (const { clientToken } of clients) await operator.wake(clientToken);
  operator.answer(
    { account_id: id, disabled, clients: clients.length },
    `${before.name} (${id}) is ${disabled ? 'disabled' : 'enabled'}; clients: ${clients.length}.`,
  );
}

async function consoleLink(
  operator: Operator,
  named: string,
  { read = false, end = false }: { read?: boolean; end?: boolean },
) {
  const { accountId: account_id, disabled, generation, scopes } = await findAccount(operator, named);
  if (end) {
    await operator.record('console end', account_id, null, null);
    await operator.change((db) => endConsoleSessions(db, account_id));
    const done = 'Every session and link of the account has ended.';
    return operator.answer({ account_id, ended: true }, done);
  }
  if (disabled) throw new Refused('The account is disabled.');
  const access: ConsoleAccess = read ? 'read' : 'full';
  // Recorded first, so that no link exists without a record.
  await operator.record('console', account_id, null, { access });
  const origin = new URL(operator.config().PUBLIC_URL ?? operator.api()).origin;
  const grant = { accountId: account_id, generation, scopes, access };
  const { url, expiresAtMs } = await createConsoleLink(await operator.db(), origin, grant);
  operator.answer({ account_id, access, url, expires_at: moment(expiresAtMs) });
}

/** Finds an account by its id, its client id or one of its clients. @throws Refused */
async function findAccount(operator: Operator, named: string): Promise<Account> {
  const db = await operator.db();
  const ids = [named, accountIdOf(named), (await getClient(db, named))?.accountId];
  for (const id of ids) {
    const account = id === undefined ? undefined : await getAccount(db, id);
    if (account !== undefined) return account;
  }
  throw new Refused(`There is no account and no client ${named}.`);
}
