import type { Dispatcher } from 'undici';
import type { EnrichmentEvent } from '../clients/node/src/client.js';
import type { EventsRequest, Job, PublishedEvents, RegistrationRequest, TokenRequest } from './jobs.js';
import { isDownTurn } from './turns.js';

export interface Outgoing {
  request: Dispatcher.RequestOptions;
  /** The event of a request with a single event. */
  event?: EnrichmentEvent;
  /** Reads the answer's body; returns a text for each event with an unexpected result. */
  onSuccess(body: string, at: number): string[];
}

export interface RequestSource {
  /** Returns the next request; undefined if none is left. */
  next(): Outgoing | undefined;
  /** The events of answered requests; filled as the answers arrive. */
  events: PublishedEvents;
}

/**
 * Makes the requests of a job, one after the other.
 * @param sinceFrom ms since the measured window began
 */
export function requestSource(request: Job['request'], sinceFrom: () => number): RequestSource {
  switch (request.kind) {
    case 'events':
      return eventRequests(request, sinceFrom);
    case 'token':
      return tokenRequests(request);
    case 'registration':
      return registrationRequests(request);
  }
}

const noEvents = (): PublishedEvents => ({ notificationIds: [], at: [], down: [], assets: [] });

/** One event in five goes to the endpoint that is down, if there is one. */
const downShare = 5;

function eventRequests(options: EventsRequest, sinceFrom: () => number): RequestSource {
  const events: PublishedEvents = noEvents();
  const headers = {
    'content-type': 'application/json',
    authorization: `Bearer ${options.accessToken}`,
  };
  let made = 0;
  const nextEvent = () => {
    const n = made++;
    const event = eventAt(options, n);
    const down = options.downClientToken !== undefined && n % downShare === 0 && isDownTurn(sinceFrom());
    return { down, event: down ? { ...event, client_token: options.downClientToken ?? '' } : event };
  };
  const expected = options.known === undefined ? 'queued' : 'none';
  const take = (
    result: { notification?: string; notification_id?: string },
    at: number,
    { down, event }: ReturnType<typeof nextEvent>,
  ) => {
    if (result.notification !== expected) {
      return [`not ${expected}: ${JSON.stringify(result).slice(0, 300)}`];
    }
    if (result.notification_id === undefined) return [];
    events.notificationIds.push(result.notification_id);
    events.at.push(at);
    events.down.push(down);
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
        body: JSON.stringify(single ? single.event : { events: batch.map(({ event }) => event) }),
      },
      ...(single && { event: single.event }),
      onSuccess: (body, at) => {
        const answer = JSON.parse(body);
        if (single) return take(answer, at, single);
        return batch.flatMap((one, k) => take(answer.results?.[k] ?? {}, at, one));
      },
    };
  };
  return { next, events };
}

/** Writes an asset like `Arrivals.assets`, for a client with the URL `<receiver>/<client token>`. */
export function assetText(clientToken: string, platformId: string): string {
  return `/${clientToken} {"event":"asset-update","platform_id":"${platformId}"}`;
}

/** Makes the event with this number. Each asset belongs to one client. */
export function eventAt(options: EventsRequest, n: number) {
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

function tokenRequests(options: TokenRequest): RequestSource {
  const bodies = options.accounts.map(({ clientId, clientSecret }) =>
    new URLSearchParams({
      grant_type: 'none',
      client_id: clientId,
      client_secret: clientSecret,
      scope: options.scope,
    }).toString(),
  );
  const headers = { 'content-type': 'application/x-www-form-urlencoded' };
  let made = 0;
  return {
    events: noEvents(),
    next: () => ({
      request: {
        path: '/oauth/access_token',
        method: 'POST',
        headers,
        body: bodies[made++ % bodies.length] ?? '',
      },
      onSuccess: (body) => (body.includes('"access_token"') ? [] : [`no token: ${body.slice(0, 300)}`]),
    }),
  };
}

function registrationRequests(options: RegistrationRequest): RequestSource {
  let made = 0;
  return {
    events: noEvents(),
    next: () => {
      const clientToken = options.clientTokens[made++];
      if (clientToken === undefined) return undefined;
      const query = new URLSearchParams({
        client_token: clientToken,
        url: `${options.receiverUrl}/${clientToken}`,
      });
      return {
        request: {
          path: `/register_push_notifications?${query}`,
          method: 'POST',
          headers: { authorization: `Bearer ${options.accessToken}` },
        },
        onSuccess: (body) =>
          body.includes('"success":true') ? [] : [`not registered: ${body.slice(0, 300)}`],
      };
    },
  };
}
