import type { Db } from '../../src/redis/connection/db.js';
import { createAccount } from '../../src/redis/records/accounts.js';
import { createClient } from '../../src/redis/records/clients.js';
import { register } from '../../src/redis/records/registrations.js';
import { createSecretBox } from '../../src/redis/records/secretBox.js';

/** Creates clients of one account in the store, each with a URL. Returns their client tokens. */
export async function registeredClients(db: Db, count: number): Promise<string[]> {
  const { account_id: accountId } = await createAccount(db, { name: 'A media company' });
  const clientTokens: string[] = [];
  for (let i = 0; i < count; i++) {
    const { clientToken } = await createClient(db, { accountId, name: 'A site' });
    const url = `https://receiver.example/${clientToken}`;
    await register(db, createSecretBox(undefined), { clientToken, accountId, url });
    clientTokens.push(clientToken);
  }
  return clientTokens;
}
