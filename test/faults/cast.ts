import type { Db } from '../../src/redis/connection/db.js';
import { createAccount, platformScope } from '../../src/redis/records/accounts.js';
import { createClient } from '../../src/redis/records/clients.js';
import type { SecretBox } from '../../src/redis/records/secretBox.js';
import { createSigningSecret } from '../../src/redis/records/secrets.js';

/** Who takes part: a publisher with registered clients, and the platform. */
export interface Cast {
  publisher: Credentials;
  platform: Credentials;
  publisherToken: string;
  clientTokens: string[];
  platformToken: string;
}

export interface Credentials {
  account_id: string;
  client_id: string;
  client_secret: string;
  scopes: string[];
}

export async function createCast(
  db: Db,
  box: SecretBox,
  apiUrl: string,
  receiverUrl: string,
  clientCount: number,
): Promise<Cast> {
  const publisher = await createAccount(db, { name: 'A media company' });
  const platform = await createAccount(db, { name: 'The platform', platform: true });
  const publisherToken = await mint(apiUrl, publisher, publisher.scopes.join(' '));
  const clientTokens: string[] = [];
  for (let i = 0; i < clientCount; i++) {
    const { clientToken } = await createClient(db, { accountId: publisher.account_id, name: `Site ${i}` });
    await createSigningSecret(db, box, clientToken);
    await register(apiUrl, publisherToken, clientToken, `${receiverUrl}/${clientToken}`);
    clientTokens.push(clientToken);
  }
  return {
    publisher,
    platform,
    publisherToken,
    clientTokens,
    platformToken: await mint(apiUrl, platform, platformScope),
  };
}

export async function mint(
  apiUrl: string,
  account: { client_id: string; client_secret: string },
  scope: string,
): Promise<string> {
  const { client_id, client_secret } = account;
  const response = await fetch(`${apiUrl}/oauth/access_token`, {
    method: 'POST',
    body: new URLSearchParams({ grant_type: 'none', client_id, client_secret, scope }),
  });
  const body = (await response.json()) as { access_token?: string };
  if (body.access_token === undefined) throw new Error(`no token: ${response.status}`);
  return body.access_token;
}

export async function register(
  apiUrl: string,
  token: string,
  clientToken: string,
  url: string,
): Promise<void> {
  const query = new URLSearchParams({ client_token: clientToken, url });
  const response = await fetch(`${apiUrl}/register_push_notifications?${query}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}` },
  });
  if (response.status !== 200) throw new Error(`not registered: ${response.status} ${await response.text()}`);
  await response.body?.cancel();
}
