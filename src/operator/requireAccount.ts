import { type Account, getAccount } from '../redis/records/accounts.js';
import type { Operator } from './operator.js';
import { Refused } from './refused.js';

/** @throws Refused if there is no such account */
export async function requireAccount(operator: Operator, id: string): Promise<Account> {
  const account = await getAccount(await operator.db(), id);
  if (account === undefined) throw new Refused(`There is no account ${id}.`);
  return account;
}
