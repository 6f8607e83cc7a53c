import { z } from 'zod';
import { presentRegistration } from '../../acts/present.js';
import { requireRegistration, type Subject } from '../../acts/subjects.js';
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
  urlText,
} from '../../http/schemas.js';
import { isNoticesClient } from '../../ids.js';
import type { Db } from '../../redis/connection/db.js';
import { pageOfClients } from '../../redis/records/clients.js';
import {
  getEndpoint,
  readSite,
  reportStateChange,
  resumeEndpoint,
  siteStates,
} from '../../redis/records/endpoint.js';
import { getRegistration } from '../../redis/records/registrations.js';
import { accountCall, clientCall } from '../call.js';
import { admitSend } from '../steps/auditCall.js';

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
  answer: async ({ db }, { token: { accountId }, query: { cursor: given, limit } }) => {
    const [, after, owner = accountId] = given?.split('.') ?? [];
    if (owner !== accountId) throw badParameter(`cursor is of the account ${owner}`);
    const { clients, next } = await pageOfClients(db, { accountId, after, limit }, async (client) => {
      if (isNoticesClient(client.clientToken)) return undefined;
      const { clientToken, name, state, health, registration } = await readSite(db, client);
      return { client_token: clientToken, name, state, url: registration?.url, owed: health?.owed ?? null };
    });
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

/** Shows a client's URL and the state of its endpoint. @throws ApiError 404 without a URL */
export const showRegistration = async (db: Db, client: Subject) =>
  presentRegistration(await requireRegistration(db, client), await getEndpoint(db, client.clientToken));

export const getPushNotificationsCall = clientCall({
  route: 'GET /push_notifications',
  summary: 'Show the registration and the state of its endpoint',
  result: { what: 'The registration.', schema: registeredUrl },
  codes: ['not_registered'],
  answer: ({ db }, { client }) => showRegistration(db, client),
});

export const resumePushNotificationsCall = clientCall({
  route: 'POST /push_notifications/resume',
  summary: 'Resume a suspended or failing endpoint',
  description:
    'Probes the endpoint now; once it answers 2xx, all owed assets drain. One call in 5 s for each client, bursts of 6.',
  after503: 'repeat it: resuming an endpoint twice does no harm.',
  status: 202,
  result: { what: 'Under way.', schema: z.object({ state: endpointState, owed: integer(12) }) },
  codes: ['not_registered'],
  answer: async (deps, request) => {
    await requireRegistration(deps.db, request.client);
    const { clientToken } = request.client;
    await admitSend(deps, request, 'resume');
    const before = await getEndpoint(deps.db, clientToken);
    await deps.db.durably((db) => resumeEndpoint(db, clientToken, 'publisher')).safe;
    const { state, owed } = await getEndpoint(deps.db, clientToken);
    reportStateChange(deps, { clientToken, from: before.state, to: state, why: 'resumed by the publisher' });
    void deps.catchUps.alarm(clientToken);
    return { state, owed };
  },
});
