import type { ClientToken } from '../ids.js';
import { type Client, getClient } from '../redis/records/clients.js';
import type { Operator } from './operator.js';
import { Refused } from './refused.js';

/** @throws Refused if there is no such client */
export async function requireClient(operator: Operator, clientToken: ClientToken): Promise<Client> {
  const client = await getClient(await operator.db(), clientToken);
  if (client === undefined) throw new Refused(`There is no client ${clientToken}.`);
  return client;
}
