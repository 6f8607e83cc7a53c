import type { Dispatcher } from 'undici';
import { type Job, type NotificationList, noNotifications } from './jobs.js';

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
export function requestSource(job: Job): RequestSource {
  const events = noNotifications();
  const headers = { 'content-type': 'application/json', authorization: `Bearer ${job.accessToken}` };
  let made = 0;
  const nextEvent = () => makeEvent(job, made++);
  const expected = job.isKnown ? 'none' : 'queued';
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
    // As the receiver writes it, whose URL is `<receiver>/<client token>`.
    events.assets.push(
      `/${event.client_token} {"event":"asset-update","platform_id":"${event.platform_id}"}`,
    );
    return [];
  };
  const next = (): Outgoing | undefined => {
    const size = Math.min(job.batchSize, (job.total ?? Number.POSITIVE_INFINITY) - made);
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

/** Assets of each client whose segments are made known. */
export const knownAssets = 20;

/** Makes the event with this number. Each asset belongs to one client. */
export function makeEvent(job: Pick<Job, 'clientTokens' | 'eventsPerTurn' | 'isKnown' | 'round'>, n: number) {
  const { clientTokens, eventsPerTurn, isKnown, round } = job;
  const asset = isKnown ? n % (knownAssets * clientTokens.length) : n;
  return {
    event_id: `${round}-${n}`,
    client_token: clientTokens[Math.floor(n / eventsPerTurn) % clientTokens.length] ?? '',
    platform_id: `${isKnown ? 'known' : round}-v${asset}`,
    segments: [0, 1, 2].map((segment) => `iab:${asset}-${segment}`),
  };
}
