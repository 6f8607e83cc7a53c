/** The requests of publishers for another URL, which only operators change. */
import { ApiError, badParameter } from '../http/apiError.js';
import { originOf } from '../outgoing/target.js';
import { mapInPages } from '../promises.js';
import { getClient } from '../redis/records/clients.js';
import { changeRegistration, getRegistration } from '../redis/records/registrations.js';
import {
  askForUrl,
  declineUrl as declineRequest,
  readUrlRequest,
  type UrlRequest,
  waitingUrlRequests,
} from '../redis/records/urlRequests.js';
import { type Actor, act } from './act.js';
import { presentTime } from './present.js';
import { keeping, replaced } from './registrations.js';
import { requireRegistration, type Subject } from './subjects.js';

interface About {
  client: Subject;
}

/** Asks operators for another URL, in the place of an earlier request. */
export const requestUrl = act(
  'registration request',
  { publisher: 'any' },
  async (actor, { client, url, reason }: About & { url: string; reason: string }, title) => {
    const { clientToken } = client;
    const db = await actor.db();
    const { url: present } = await requireRegistration(db, client);
    if (url === present) throw badParameter('url: is the registered one');
    await actor.checkUrl(url);
    const box = await actor.secretBox();
    const after = { url: originOf(url), reason };
    await actor.admit(title, { target: clientToken, after }, { sets: true, security: 'change' });
    const asked = { url, reason, by: actor.name };
    const request = await actor.change((own) => askForUrl(own, box, clientToken, asked));
    if (request === undefined) throw new ApiError('not_registered');
    return showUrlRequest(actor, { client });
  },
);

/** Shows the client's last request for another URL. */
export const showUrlRequest = act(
  'registration requested',
  { publisher: 'any' },
  async (actor, { client }: About) => {
    const found = await readUrlRequest(await actor.db(), await actor.secretBox(), client.clientToken);
    if (found === undefined) throw new ApiError('no_url_request');
    return presentRequest(found);
  },
);

const presentRequest = ({ url, reason, state, at, until }: UrlRequest) => ({
  url,
  reason,
  state,
  asked_at: presentTime(at),
  until: presentTime(until),
});

/** Lists the requests for another URL that wait: who asks, and which URL is to be replaced. */
export const listUrlRequests = act(
  'registration requests',
  { operator: 'look' },
  async (actor, { client }: Partial<About>) => {
    const db = await actor.db();
    const waiting = await waitingUrlRequests(db, await actor.secretBox(), client?.clientToken);
    return mapInPages(waiting, 50, async (one) => {
      const present = await getRegistration(db, one.clientToken);
      return {
        ...presentRequest(one),
        request: one.request,
        client_token: one.clientToken,
        account_id: (await getClient(db, one.clientToken))?.accountId ?? null,
        asked_by: one.by,
        // Its removal ends the request.
        present_url: present ? actor.shownUrl(present.url) : null,
        url: actor.shownUrl(one.url),
      };
    });
  },
);

type Answering = About & {
  /** Its reference; by default of the one that waits. */
  request?: string | undefined;
};

/** Changes a client's URL as its publisher has asked. */
export const acceptUrl = act(
  'registration accept',
  { operator: 'support' },
  async (actor, { client, request }: Answering, title) => {
    const asked = await requireRequest(actor, client, request);
    const { url: present } = await requireRegistration(await actor.db(), client);
    await actor.checkUrl(asked.url);
    const { before, replacing } = await keeping(actor, client, present);
    const after = { url: originOf(asked.url), request: asked.request };
    await actor.admit(title, { target: client.clientToken, before, after });
    const accepted = { ...replacing, accepted: asked.request };
    return replaced(actor, client, (db) =>
      changeRegistration(db, client.clientToken, asked.url, 'operator', accepted),
    );
  },
);

/** Declines what a publisher has asked; its URL stays. */
export const declineUrl = act(
  'registration decline',
  { operator: 'support' },
  async (actor, { client, request: wanted }: Answering, title) => {
    const { clientToken } = client;
    const { request, url } = await requireRequest(actor, client, wanted);
    await actor.admit(title, { target: clientToken, after: { declined: originOf(url), request } });
    if (!(await actor.change((db) => declineRequest(db, clientToken, request))))
      throw notAsked(clientToken, request);
    return { client_token: clientToken, declined_url: url };
  },
);

async function requireRequest(actor: Actor, { clientToken }: Subject, wanted?: string) {
  const found = await readUrlRequest(await actor.db(), await actor.secretBox(), clientToken);
  if (found?.state === 'waiting' && (wanted ?? found.request) === found.request) return found;
  throw notAsked(clientToken, wanted);
}

const notAsked = (clientToken: string, wanted?: string) =>
  new ApiError(
    'refused',
    `${clientToken} has no ${wanted ? 'such request' : 'request'} for another URL that waits`,
  );
