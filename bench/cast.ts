import { request } from 'undici';
import { createAccount, platformScope } from '../src/redis/records/accounts.js';
import { createClient } from '../src/redis/records/clients.js';
import { createSigningSecret } from '../src/redis/records/secrets.js';
import type { Stack } from './stack.js';

/** The accounts of a run: a publisher with its clients, and the platform. */
export interface Cast {
  publisher: { clientId: string; clientSecret: string };
  publisherToken: string;
  platformToken: string;
  /** Makes clients and registers `<receiverUrl>/<client token>` for each through the API. */
  newRegisteredClients(count: number, receiverUrl: string): Promise<string[]>;
}

export async function createCast(stack: Stack): Promise<Cast> {
  const publisher = await createAccount(stack.db, { name: 'benchmark publisher' });
  const platform = await createAccount(stack.db, { name: 'benchmark platform', scopes: [platformScope] });
  const mint = (account: typeof publisher) =>
    mintToken(stack.baseUrl, account.client_id, account.client_secret, account.scopes.join(' '));
  const accessToken = await mint(publisher);

  const newClient = async (i: number, receiverUrl: string) => {
    const { clientToken } = await createClient(stack.db, {
      accountId: publisher.account_id,
      name: `site ${i}`,
    });
    await createSigningSecret(stack.db, stack.secretBox, clientToken);
    await register(stack.baseUrl, accessToken, clientToken, `${receiverUrl}/${clientToken}`);
    return clientToken;
  };
  return {
    publisher: { clientId: publisher.client_id, clientSecret: publisher.client_secret },
    publisherToken: accessToken,
    platformToken: await mint(platform),
    newRegisteredClients: async (count, receiverUrl) => {
      const clientTokens: string[] = [];
      for (let i = 0; i < count; i++) clientTokens.push(await newClient(i, receiverUrl));
      return clientTokens;
    },
  };
}

async function mintToken(
  baseUrl: string,
  clientId: string,
  clientSecret: string,
  scope: string,
): Promise<string> {
  const { statusCode, body } = await request(`${baseUrl}/oauth/access_token`, {
    method: 'POST',
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
    body: new URLSearchParams({
      grant_type: 'none',
      client_id: clientId,
      client_secret: clientSecret,
      scope,
    }).toString(),
  });
  const text = await body.text();
  if (statusCode !== 200) throw new Error(`no token: ${statusCode} ${text}`);
  return (JSON.parse(text) as { access_token: string }).access_token;
}

async function register(
  baseUrl: string,
  accessToken: string,
  clientToken: string,
  url: string,
): Promise<void> {
  const query = new URLSearchParams({ client_token: clientToken, url });
  const { statusCode, body } = await request(`${baseUrl}/register_push_notifications?${query}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${accessToken}` },
  });
  const text = await body.text();
  if (statusCode !== 200) throw new Error(`not registered: ${statusCode} ${text}`);
}
