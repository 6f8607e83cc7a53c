import { mapInPages } from '../../src/promises.js';
import type { Db } from '../../src/redis/connection/db.js';
import { getNotification, type NotificationRecord } from '../../src/redis/notifications/notifications.js';
import { getRegistration } from '../../src/redis/records/registrations.js';
import { callApi } from '../service.js';
import type { Acknowledged, Registered } from './load.js';
import type { Receiver } from './receiver.js';

export type Fate =
  /** It, or a newer one of the same asset that took its place, was received. */
  { kind: 'delivered' } | { kind: 'waiting'; why: string } | { kind: 'lost'; why: string };

export const noRecord = 'it has no record';

/** The result of an acknowledged event, judged by what the receiver got; records only lead from id to id. */
export async function fateOf(
  db: Db,
  event: Pick<Acknowledged, 'clientToken' | 'eventId' | 'notificationId'>,
  receiver: Pick<Receiver, 'arrivals'>,
): Promise<Fate> {
  const first = await getNotification(db, event.clientToken, event.notificationId);
  if (first !== undefined && first.eventId !== event.eventId)
    return { kind: 'lost', why: `its record is of event ${first.eventId}` };
  if (receiver.arrivals.has(event.notificationId) && first?.state !== 'waiting') return { kind: 'delivered' };
  const seen = new Set<string>();
  for (let record = first; ; ) {
    if (record === undefined) return { kind: 'waiting', why: noRecord };
    if (seen.has(record.notificationId)) return { kind: 'lost', why: 'superseded in a circle' };
    seen.add(record.notificationId);
    const arrived = receiver.arrivals.has(record.notificationId);
    switch (record.state) {
      case 'waiting':
        return { kind: 'waiting', why: describe(record) };
      case 'delivered':
        return arrived ? { kind: 'delivered' } : { kind: 'lost', why: `not received: ${describe(record)}` };
      case 'superseded':
      case 'not_needed':
        if (record.by === undefined) return { kind: 'lost', why: `by nothing: ${describe(record)}` };
        if (record !== first && arrived) return { kind: 'delivered' };
        record = await getNotification(db, event.clientToken, record.by);
        break;
      case 'failed':
      case 'cancelled':
        return { kind: 'lost', why: describe(record) };
    }
  }
}

function describe(record: NotificationRecord): string {
  const next = record.nextAttemptAt === undefined ? 'no next attempt' : `next at ${record.nextAttemptAt}`;
  const last = record.attempts.at(-1);
  return [
    `${record.notificationId} of ${record.clientToken} ${record.platformId} is ${record.state}`,
    next,
    `now ${Date.now()}`,
    `last attempt ${last === undefined ? 'none' : JSON.stringify(last)}`,
  ].join(', ');
}

/** Returns the tokens that the API does not take, each asking for `clientToken`, which has a URL. */
export async function refusedTokens<T extends { value: string }>(
  apiUrl: string,
  clientToken: string,
  tokens: readonly T[],
): Promise<T[]> {
  const url = `${apiUrl}/push_notifications?client_token=${clientToken}`;
  const refused = await mapInPages(tokens, 4, async (token) => {
    const { status } = await callApi(token.value, 'GET', url);
    return status === 200 ? [] : [token];
  });
  return refused.flat();
}

/** Those that do not have exactly one URL that was answered 200, or have lost it. */
export async function lostRegistrations(db: Db, registrations: readonly Registered[]) {
  const lost = [];
  for (const registered of registrations) {
    const stored = (await getRegistration(db, registered.clientToken))?.url;
    if (registered.urls.length !== 1 || stored !== registered.urls[0]) lost.push({ ...registered, stored });
  }
  return lost;
}
