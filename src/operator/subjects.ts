/** Finds what the input of an operation names: a client, an account, a notification. */
import type { Actor } from '../acts/act.js';
import { ApiError } from '../http/apiError.js';
import { findNotification } from '../redis/notifications/notifications.js';
import { type Account, getAccount } from '../redis/records/accounts.js';
import { type Client, getClient } from '../redis/records/clients.js';

type Names = { client_token?: string; account_id?: string; account?: string; notification_id?: string };

/** How a command writes the first member of its input. */
export const subjects: Readonly<Record<string, string>> = {
  client_token: '<token>',
  account_id: '<id>',
  notification_id: '<notification-id>',
};

export type Found<Input> = Omit<Input, keyof Names> &
  (Input extends { client_token: string } | { notification_id: string } ? { client: Client } : unknown) &
  (Input extends { account_id: string } | { account: string } ? { account: Account } : unknown) &
  (Input extends { notification_id: string } ? { id: string } : unknown);

/** @throws ApiError 404 if there is none */
export async function findNamed(operator: Pick<Actor, 'db'>, input: Names): Promise<object> {
  const { client_token, account, account_id = account, notification_id: id, ...rest } = input;
  const token = id === undefined ? client_token : (await requireNotification(operator, id)).clientToken;
  return {
    ...rest,
    ...(id !== undefined && { id }),
    ...(token !== undefined && { client: await requireClient(operator, token) }),
    ...(account_id !== undefined && { account: await requireAccount(operator, account_id) }),
  };
}

/** @throws ApiError 404 if there is no such client */
export async function requireClient(operator: Pick<Actor, 'db'>, clientToken: string): Promise<Client> {
  const client = await getClient(await operator.db(), clientToken);
  if (client === undefined) throw new ApiError('unknown_client', `There is no client ${clientToken}`);
  return client;
}

/** @throws ApiError 404 if there is no such account */
export async function requireAccount(operator: Pick<Actor, 'db'>, id: string): Promise<Account> {
  const account = await getAccount(await operator.db(), id);
  if (account === undefined) throw new ApiError('unknown_account', `There is no account ${id}`);
  return account;
}

async function requireNotification(operator: Pick<Actor, 'db'>, id: string) {
  const found = await findNotification(await operator.db(), id);
  if (found !== undefined) return found;
  throw new ApiError(
    'unknown_notification',
    `There is no notification ${id}: records are kept for 14 days after their end. ` +
      "Search Temporal's UI for a workflow whose id ends with it, or ask for its asset: explain CLIENT PLATFORM_ID",
  );
}
