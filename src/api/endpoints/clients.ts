import { z } from 'zod';
import { clientTokenPattern } from '../../ids.js';
import { mapInPages } from '../../mapInPages.js';
import type { Db } from '../../redis/connection/db.js';
import { type Client, pageOfClients } from '../../redis/records/clients.js';
import { getEndpoint } from '../../redis/records/endpoint.js';
import { endpointStates } from '../../redis/records/endpointStates.js';
import { getRegistration } from '../../redis/records/registrations.js';
import { accountEndpoint } from '../endpoint.js';
import { text, whole } from '../reference/schema.js';
import { clientTokenText, limitNumber, notACursor, urlText } from '../reference/schemas.js';
import { limitAccount } from '../steps/accountRate.js';
import type { TokenState } from '../steps/bearer.js';
import { readQuery } from '../steps/readQuery.js';

const query = z.object({
  cursor: text('SITE0042', 'The next_cursor of the previous page.')
    .regex(clientTokenPattern, notACursor)
    .optional(),
  limit: limitNumber,
});

const oneClient = z.object({
  client_token: clientTokenText,
  name: text('Example Site'),
  state: z.enum(['not_registered', ...endpointStates]),
  url: urlText.optional(),
  owed: whole(0),
});

export const clientsEndpoint = accountEndpoint<TokenState>({
  method: 'get',
  path: '/clients',
  operationId: 'listClients',
  tag: 'Endpoint',
  summary: 'List the clients of the account',
  description: 'Lists the account’s clients by client token, page by page.',
  query,
  answers: {
    200: {
      what: 'One page. There are more if it has next_cursor.',
      schema: z.object({ clients: z.array(oneClient), next_cursor: clientTokenText.optional() }),
    },
  },
  codes: [],
  rate: 'records',
  steps: (deps) => [
    limitAccount(deps, 'records'),
    async (ctx) => {
      const { cursor: after, limit } = readQuery(ctx, query);
      const page = await pageOfClients(deps.db, ctx.state.token.accountId, { after, limit });
      ctx.body = {
        clients: await mapInPages(page.clients, concurrency, (client) => presentClient(deps.db, client)),
        next_cursor: page.next,
      };
    },
  ],
});

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
    url: registration?.url,
    owed: health.owed,
  };
}
