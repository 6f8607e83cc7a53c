import type { Middleware } from 'koa';
import { clientTokenPattern } from '../../ids.js';
import { mapInPages } from '../../mapInPages.js';
import type { Db } from '../../redis/connection/db.js';
import { type Client, pageOfClients } from '../../redis/records/clients.js';
import { getEndpoint } from '../../redis/records/endpoint.js';
import { getRegistration } from '../../redis/records/registrations.js';
import { composeSteps } from '../composeSteps.js';
import type { ApiDeps } from '../deps.js';
import { limitAccount } from '../steps/accountRate.js';
import { requireToken, type TokenState } from '../steps/bearer.js';
import { readLimit, unknownCursor } from '../steps/body/readLimit.js';
import { noStore } from '../steps/publisher.js';
import { readQuery } from '../steps/readQuery.js';

/** GET /clients: lists the account's clients and their states, page by page. */
export function clientsEndpoint(deps: ApiDeps): Middleware[] {
  const { db } = deps;
  return composeSteps<TokenState>(noStore, requireToken(db), limitAccount(deps, 'records'), async (ctx) => {
    const page = await pageOfClients(
      db,
      ctx.state.token.accountId,
      readPage(readQuery(ctx, ['cursor', 'limit'])),
    );
    ctx.body = {
      clients: await mapInPages(page.clients, concurrency, (client) => presentClient(db, client)),
      ...(page.next !== undefined && { next_cursor: page.next }),
    };
  });
}

function readPage({ cursor, limit }: Record<string, string | undefined>): { after?: string; limit: number } {
  if (cursor !== undefined && !clientTokenPattern.test(cursor)) throw unknownCursor();
  return { limit: readLimit(limit), ...(cursor !== undefined && { after: cursor }) };
}

/** Bounds the commands that one call has under way at Redis. */
const concurrency = 50;

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
