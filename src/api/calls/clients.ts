import { z } from 'zod';
import { makeConsoleLink } from '../../acts/accounts.js';
import { listClients } from '../../acts/clients.js';
import { resume, showRegistration } from '../../acts/registrations.js';
import { badParameter } from '../../http/apiError.js';
import {
  clientTokenText,
  endpointState,
  integer,
  limitNumber,
  notACursor,
  oneOfMany,
  pageMembers,
  registeredUrl,
  text,
  time,
  urlText,
} from '../../http/schemas.js';
import type { Db } from '../../redis/connection/db.js';
import { ignore } from '../../redis/connection/unavailable.js';
import { getEndpoint, siteStates } from '../../redis/records/endpoint.js';
import { getRegistration } from '../../redis/records/registrations.js';
import { consoleAccesses } from '../../redis/records/sessions.js';
import { publicOrigin } from '../../web/cookies.js';
import { actorOf } from '../actor.js';
import { accountCall, clientCall } from '../call.js';

/** `c`, the last client of the page, and the account, which earlier versions left out. */
const cursor = text('c.SITE0042.acc_7Qd2mVx0').regex(/^c([.][A-Za-z0-9_-]{1,64}){1,2}$/, notACursor);

const oneClient = z.object({
  client_token: clientTokenText,
  name: text('Example Site'),
  state: oneOfMany([...siteStates, 'unreadable']),
  url: urlText.optional(),
  owed: integer(0, 'null where the state is unreadable: its data is broken').nullable(),
});

export const listClientsCall = accountCall({
  route: 'GET /clients',
  summary: 'List the clients of the account',
  description: 'Lists the account’s clients by client token, page by page.',
  query: z.object({
    cursor: cursor.describe('The next_cursor of the previous page.').optional(),
    limit: limitNumber,
  }),
  result: { what: 'One page.', schema: z.object({ clients: z.array(oneClient), ...pageMembers(cursor) }) },
  rate: 'records',
  isLong: true,
  act: listClients,
  answer: async (deps, request) => {
    const { accountId } = request.token;
    const { cursor: given, limit } = request.query;
    const [, after, owner = accountId] = given?.split('.') ?? [];
    if (owner !== accountId) throw badParameter(`cursor is of the account ${owner}`);
    const { clients, next } = await listClients(actorOf(deps, request), { after, limit });
    return { clients, has_more: next !== undefined, next_cursor: next && `c.${next}.${accountId}` };
  },
});

export async function readEndpoint(db: Db, clientToken: string) {
  const [health, registration] = await Promise.all([
    getEndpoint(db, clientToken),
    getRegistration(db, clientToken),
  ]);
  return { health, registration };
}

export const getPushNotificationsCall = clientCall({
  act: showRegistration,
  route: 'GET /push_notifications',
  summary: 'Show the registration and the state of its endpoint',
  result: { what: 'The registration.', schema: registeredUrl },
  codes: ['not_registered'],
});

export const resumePushNotificationsCall = clientCall({
  act: resume,
  route: 'POST /push_notifications/resume',
  summary: 'Resume a suspended or failing endpoint',
  description:
    'Probes the endpoint now; once it answers 2xx, all owed assets drain. One call in 5 s for each client, bursts of 8.',
  after503: 'repeat it: resuming an endpoint twice does no harm.',
  status: 202,
  result: { what: 'Under way.', schema: z.object({ state: endpointState, owed: integer(12) }) },
  codes: ['not_registered'],
});

export const createConsoleSessionCall = accountCall({
  route: 'POST /console_sessions',
  summary: 'Make a link to the console',
  description: 'Makes a link that opens the account’s console in a browser, once, within 15 minutes.',
  after503: 'ask again: a link that was made and not answered is known to nobody and ends after 15 minutes.',
  query: z.object({
    access: z
      .enum(consoleAccesses)
      .default('full')
      .meta({ description: 'What the session may do.', default: 'full' }),
  }),
  result: {
    what: 'The link.',
    schema: z.object({
      url: text('https://notifications.example.com/console/open#dG9rZW4'),
      expires_at: time(),
    }),
  },
  rate: 'links',
  act: makeConsoleLink,
  answer: async (deps, request) => {
    const { ctx, token, query } = request;
    // After the token's own rate: one token cannot use up the links of all.
    await deps.countCall({ set: ignore }, 'accountLinks', token.accountId);
    const origin = publicOrigin(ctx.req, deps.config);
    return makeConsoleLink(actorOf(deps, request), { ...token, ...query, origin });
  },
});
