import type { Middleware } from 'koa';
import { mapInPages } from '../mapInPages.js';
import { type Client, listClients } from '../store/clients.js';
import type { Db } from '../store/db.js';
import { getEndpoint } from '../store/endpoint.js';
import { getRegistration } from '../store/registrations.js';
import { requireToken, type TokenState } from './bearer.js';
import type { ApiDeps } from './deps.js';
import { endpoint } from './endpoint.js';
import { noStore } from './publisher.js';

/** GET /clients: the account's clients and how each is doing. */
export function clientsEndpoint({ db }: ApiDeps): Middleware[] {
  return endpoint<TokenState>(noStore, requireToken(db), async (ctx) => {
    const clients = await listClients(db, ctx.state.token.accountId);
    ctx.body = { clients: await mapInPages(clients, atOnce, (client) => presentClient(db, client)) };
  });
}

/** Bounds what one call has under way at Redis. */
const atOnce = 50;

async function presentClient(db: Db, { clientToken, name }: Client): Promise<unknown> {
  const [health, registration] = await Promise.all([
    getEndpoint(db, clientToken),
    getRegistration(db, clientToken),
  ]);
  return {
    client_token: clientToken,
    name,
    state: registration ? health.state : 'not_registered',
    ...(registration && { url: registration.url }),
    owed: health.owed,
  };
}
