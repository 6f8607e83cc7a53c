import { request } from 'undici';
import { createAccount, platformScope } from '../src/redis/records/accounts.js';
import { createClient } from '../src/redis/records/clients.js';
import { createSigningSecret } from '../src/redis/records/signingSecrets.js';
import type { Stack } from './stack.js';

/** The accounts of a run: a publisher with its clients, and the platform. */
export interface Cast {
  publisher: { accountId: string; clientId: string; clientSecret: string; accessToken: string };
  platform: { clientId: string; clientSecret: string; accessToken: string };
  /** Makes clients without a registration. */
  newClients(count: number): Promise<string[]>;
  /** Makes clients and registers `<receiverUrl>/<client token>` for each through the API. */
  newRegisteredClients(count: number, receiverUrl: string): Promise<string[]>;
  /** Registers a client's URL through the API. */
  register(clientToken: string, url: string): Promise<void>;
}

export async function createCast(stack: Stack): Promise<Cast> {
  const publisher = await createAccount(stack.db, { name: 'benchmark publisher' });
  const platform = await createAccount(stack.db, { name: 'benchmark platform', platform: true });
  const mint = (account: typeof publisher) =>
    mintToken(stack.baseUrl, account.client_id, account.client_secret, account.scopes.join(' '));
  const accessToken = await mint(publisher);

  const newClients = async (count: number) => {
    const clientTokens: string[] = [];
    for (let i = 0; i < count; i++) {
      const client = await createClient(stack.db, { accountId: publisher.account_id, name: `site ${i}` });
      await createSigningSecret(stack.db, stack.secretBox, client.clientToken);
      clientTokens.push(client.clientToken);
    }
    return clientTokens;
  };
  return {
    publisher: {
      accountId: publisher.account_id,
      clientId: publisher.client_id,
      clientSecret: publisher.client_secret,
      accessToken,
    },
    platform: {
      clientId: platform.client_id,
      clientSecret: platform.client_secret,
      accessToken: await mint({ ...platform, scopes: [platformScope] }),
    },
    newClients,
    register: (clientToken, url) => register(stack.baseUrl, accessToken, clientToken, url),
    newRegisteredClients: async (count, receiverUrl) => {
      const clientTokens = await newClients(count);
      for (const clientToken of clientTokens) {
        await register(stack.baseUrl, accessToken, clientToken, `${receiverUrl}/${clientToken}`);
      }
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
