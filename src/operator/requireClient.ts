import { InvalidArgumentError } from 'commander';
import { type ClientToken, isClientToken } from '../ids.js';
import { type Client, getClient } from '../redis/records/clients.js';
import type { Operator } from './operator.js';
import { Refused } from './refused.js';

/** Reads a client token as an argument. */
export function parseClientToken(text: string): ClientToken {
  if (!isClientToken(text)) {
    throw new InvalidArgumentError('A client token is 1 to 64 of A-Z a-z 0-9 _ -.');
  }
  return text;
}

/** @throws Refused if there is no such client */
export async function requireClient(operator: Operator, clientToken: ClientToken): Promise<Client> {
  const client = await getClient(await operator.db(), clientToken);
  if (client === undefined) throw new Refused(`There is no client ${clientToken}.`);
  return client;
}
