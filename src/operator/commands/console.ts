import { linkUrl } from '../../api/console/access/publicOrigin.js';
import { type Account, accountIdOf, getAccount } from '../../redis/records/accounts.js';
import { getClient } from '../../redis/records/clients.js';
import {
  type ConsoleAccess,
  createConsoleLink,
  endConsoleSessions,
} from '../../redis/records/consoleSessions.js';
import { type AddCommand, type Operator, Refused } from '../operator.js';
import { facts } from '../terminal/table.js';
import { moment } from '../terminal/words.js';

export function addConsoleCommand(add: AddCommand): void {
  add(
    'console <account-or-client>',
    "print a link that opens an account's console once, within 15 minutes",
    consoleLink,
  )
    .option('--read', 'the session may only look, not change or send anything')
    .option('--end', 'end every session and unused link of the account instead');
}

async function consoleLink(
  operator: Operator,
  named: string,
  { read = false, end = false }: { read?: boolean; end?: boolean },
): Promise<void> {
  const account = await knownAccount(operator, named);
  if (end) return await endSessions(operator, account);
  if (account.disabled) throw new Refused('The account is disabled.');
  const { accountId, generation, scopes } = account;
  const access: ConsoleAccess = read ? 'read' : 'full';
  // Recorded first, so that no link exists without a record.
  await operator.record('console', accountId, null, { access });
  const grant = { accountId, generation, scopes, access };
  const link = await createConsoleLink(await operator.db(), grant);
  const origin = new URL(operator.config().PUBLIC_URL ?? operator.api()).origin;
  const answer = {
    account_id: accountId,
    access,
    url: linkUrl(origin, link.token),
    expires_at: moment(link.expiresAtMs),
  };
  operator.answer(answer, () => facts(answer));
}

async function endSessions(operator: Operator, { accountId }: Account): Promise<void> {
  await operator.record('console end', accountId, null, null);
  await operator.change((db) => endConsoleSessions(db, accountId));
  operator.answer(
    { account_id: accountId, ended: true },
    () => 'Every session and link of the account has ended.',
  );
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
