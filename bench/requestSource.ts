import type { Dispatcher } from 'undici';
import type { EventsRequest, Job, NotificationList, TokenRequest } from './jobs.js';

export interface Outgoing {
  request: Dispatcher.RequestOptions;
  /** Reads the answer's body; returns a text for each event with an unexpected result. */
  onSuccess(body: string, at: number): string[];
}

export interface RequestSource {
  /** Returns the next request; undefined if none is left. */
  next(): Outgoing | undefined;
  /** The events of answered requests; filled as the answers arrive. */
  events: NotificationList;
}

/** Makes the requests of a job, one after the other. */
export function requestSource(request: Job['request']): RequestSource {
  switch (request.kind) {
    case 'events':
      return eventRequests(request);
    case 'token':
      return tokenRequests(request);
  }
}

const noEvents = (): NotificationList => ({ ids: [], at: [], assets: [] });

function eventRequests(options: EventsRequest): RequestSource {
  const events = noEvents();
  const headers = {
    'content-type': 'application/json',
    authorization: `Bearer ${options.accessToken}`,
  };
  let made = 0;
  const nextEvent = () => makeEvent(options, made++);
  const expected = options.known === undefined ? 'queued' : 'none';
  const take = (
    result: { notification?: string; notification_id?: string },
    at: number,
    event: ReturnType<typeof nextEvent>,
  ) => {
    if (result.notification !== expected) {
      return [`not ${expected}: ${JSON.stringify(result).slice(0, 300)}`];
    }
    if (result.notification_id === undefined) return [];
    events.ids.push(result.notification_id);
    events.at.push(at);
    events.assets.push(assetText(event.client_token, event.platform_id));
    return [];
  };
  const next = (): Outgoing | undefined => {
    const size = Math.min(options.batchSize, (options.total ?? Number.POSITIVE_INFINITY) - made);
    if (size <= 0) return undefined;
    const batch = Array.from({ length: size }, nextEvent);
    const single = batch.length === 1 ? batch[0] : undefined;
    return {
      request: {
        path: '/enrichments',
        method: 'POST',
        headers,
        body: JSON.stringify(single ?? { events: batch }),
      },
      onSuccess: (body, at) => {
        const answer = JSON.parse(body);
        if (single) return take(answer, at, single);
        return batch.flatMap((one, k) => take(answer.results?.[k] ?? {}, at, one));
      },
    };
  };
  return { next, events };
}

/** Writes an asset like `NotificationList.assets`, for a client with the URL `<receiver>/<client token>`. */
function assetText(clientToken: string, platformId: string): string {
  return `/${clientToken} {"event":"asset-update","platform_id":"${platformId}"}`;
}

/** Makes the event with this number. Each asset belongs to one client. */
export function makeEvent(options: EventsRequest, n: number) {
  const clients = options.clientTokens;
  const assets = options.assets * clients.length;
  const asset = assets > 0 ? n % assets : n;
  const about = options.known === undefined ? n : asset;
  return {
    event_id: `${options.round}-${n}`,
    client_token: clients[Math.floor(n / (options.eventsPerTurn ?? 1)) % clients.length] ?? '',
    platform_id: `${options.known ?? options.round}-v${asset}`,
    segments: Array.from({ length: options.segments }, (_, s) => `iab:${about}-${s}`),
  };
}

function tokenRequests({ account, scope }: TokenRequest): RequestSource {
  const request = {
    path: '/oauth/access_token',
    method: 'POST' as const,
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
    body: new URLSearchParams({
      grant_type: 'none',
      client_id: account.clientId,
      client_secret: account.clientSecret,
      scope,
    }).toString(),
  };
  return {
    events: noEvents(),
    next: () => ({
      request,
      onSuccess: (body) => (body.includes('"access_token"') ? [] : [`no token: ${body.slice(0, 300)}`]),
    }),
  };
}
