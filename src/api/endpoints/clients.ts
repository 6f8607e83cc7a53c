import { z } from 'zod';
import { mapInPages } from '../../mapInPages.js';
import type { Db } from '../../redis/connection/db.js';
import { type Client, pageOfClients } from '../../redis/records/clients.js';
import { getEndpoint } from '../../redis/records/endpoint.js';
import { endpointStates } from '../../redis/records/endpointStates.js';
import { getRegistration } from '../../redis/records/registrations.js';
import { accountEndpoint } from '../endpoint.js';
import { text, whole } from '../reference/schema.js';
import { clientTokenText, limitNumber, notACursor, pageMembers, urlText } from '../reference/schemas.js';
import { limitAccount } from '../steps/accountRate.js';
import type { TokenState } from '../steps/bearer.js';
import { readQuery } from '../steps/readQuery.js';

/** `c` and the last client of the page. */
const cursor = text('c.SITE0042').regex(/^c[.][A-Za-z0-9_-]{1,64}$/, notACursor);

const query = z.object({
  cursor: cursor.describe('The next_cursor of the previous page.').optional(),
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
      what: 'One page.',
      schema: z.object({ clients: z.array(oneClient), ...pageMembers(cursor) }),
    },
  },
  codes: [],
  rate: 'records',
  steps: (deps) => [
    limitAccount(deps, 'records'),
    async (ctx) => {
      const { cursor: given, limit } = readQuery(ctx, query);
      const after = given?.slice('c.'.length);
      const page = await pageOfClients(deps.db, ctx.state.token.accountId, { after, limit });
      ctx.body = {
        clients: await mapInPages(page.clients, concurrency, (client) => presentClient(deps.db, client)),
        has_more: page.next !== undefined,
        next_cursor: page.next && `c.${page.next}`,
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
