/** The requests of publishers for another URL, which only operators change. */
import { ApiError, badParameter, refused } from '../http/apiError.js';
import { messageOf } from '../log.js';
import { mapInPages } from '../promises.js';
import { getClient } from '../redis/records/clients.js';
import { getRegistration } from '../redis/records/registrations.js';
import {
  askForUrl,
  declineUrl as declineRequest,
  readUrlRequest,
  type UrlRequest,
  waitingUrlRequests,
} from '../redis/records/urlRequests.js';
import { type Actor, act, anyPublisher, look, support } from './act.js';
import { presentTime } from './present.js';
import { replace } from './registrations.js';
import { type About, requireRegistration, type Subject } from './subjects.js';

/** Asks operators for another URL, in the place of an earlier request. */
export const requestUrl = act(
  'registration request',
  anyPublisher,
  async (actor, { client, url, reason }: About & { url: string; reason: string }, admit) => {
    const { clientToken } = client;
    const db = await actor.db();
    const { url: present } = await requireRegistration(db, client);
    if (url === present) throw badParameter('url: is the registered one');
    await actor.checkUrl(url);
    const box = await actor.secretBox();
    await admit({ after: { url, reason } }, { sets: true, security: 'change' });
    const asked = { url, reason, by: actor.name };
    const request = await actor.change((own) => askForUrl(own, box, clientToken, asked));
    if (request === undefined) throw new ApiError('not_registered');
    return showUrlRequest(actor, { client });
  },
);

export const showUrlRequest = act('registration requested', anyPublisher, async (actor, given: About) => {
  const found = await readUrlRequest(await actor.db(), await actor.secretBox(), given.client.clientToken);
  if (found === undefined) throw new ApiError('no_url_request');
  return presentRequest(found);
});

const presentRequest = ({ url, reason, state, at, until }: UrlRequest) => {
  return { url, reason, state, asked_at: presentTime(at), until: presentTime(until) };
};

/** Lists the requests for another URL that wait: who asks, and which URL is to be replaced. */
export const listUrlRequests = act('registration requests', look, async (actor, given: Partial<About>) => {
  const db = await actor.db();
  const onBroken = (clientToken: string, err: unknown) =>
    actor.warn(`The request of ${clientToken} for another URL cannot be read: ${messageOf(err)}.`);
  const waiting = await waitingUrlRequests(db, await actor.secretBox(), onBroken, given.client?.clientToken);
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
});

type Answering = About & {
  /** Its reference; by default of the one that waits. */
  request?: string | undefined;
};

export const acceptUrl = act('registration accept', support, async (actor, given: Answering, admit) => {
  const { client, request: wanted } = given;
  const { url, request } = await requireRequest(actor, client, wanted);
  const { url: present } = await requireRegistration(await actor.db(), client);
  return replace(actor, client, admit, { present, url, as: { request }, accepted: request });
});

/** Declines what a publisher has asked; its URL stays. */
export const declineUrl = act('registration decline', support, async (actor, given: Answering, admit) => {
  const { client, request: wanted } = given;
  const { clientToken } = client;
  const { request, url } = await requireRequest(actor, client, wanted);
  await admit({ after: { declined: true, url, request } });
  if (!(await actor.change((db) => declineRequest(db, clientToken, request))))
    throw notAsked(clientToken, request);
  return { client_token: clientToken, declined_url: url };
});

async function requireRequest(actor: Actor, { clientToken }: Subject, wanted?: string) {
  const found = await readUrlRequest(await actor.db(), await actor.secretBox(), clientToken);
  if (found?.state === 'waiting' && (wanted ?? found.request) === found.request) return found;
  throw notAsked(clientToken, wanted);
}

const notAsked = (clientToken: string, wanted?: string) =>
  refused(
    wanted
      ? `${clientToken} has no such request for another URL that waits: reload the page, or list the requests again`
      : `${clientToken} has no request for another URL that waits`,
  );
