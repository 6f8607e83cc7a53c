import { Pool } from 'undici';
import type { Db } from '../../src/redis/connection/db.js';
import { getNotification, type NotificationRecord } from '../../src/redis/notifications/notifications.js';
import { getRegistration } from '../../src/redis/records/registrations.js';
import type { Acknowledged, Registered } from './load.js';
import type { Receiver } from './receiver.js';

export type Fate =
  | { kind: 'delivered' }
  /** A newer one of the same asset took its place, and that one was received. */
  | { kind: 'superseded' }
  | { kind: 'waiting'; why: string }
  | { kind: 'lost'; why: string };

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
    if (record === undefined) return { kind: 'waiting', why: 'it has no record' };
    if (seen.has(record.notificationId)) return { kind: 'lost', why: 'superseded in a circle' };
    seen.add(record.notificationId);
    const arrived = receiver.arrivals.has(record.notificationId);
    switch (record.state) {
      case 'waiting':
        return { kind: 'waiting', why: describe(record) };
      case 'delivered':
        return arrived ? { kind: 'superseded' } : { kind: 'lost', why: `not received: ${describe(record)}` };
      case 'superseded':
      case 'not_needed':
        if (record.by === undefined) return { kind: 'lost', why: `by nothing: ${describe(record)}` };
        if (record !== first && arrived) return { kind: 'superseded' };
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

/**
 * Events that were given, or received under, more than one id.
 * @param beside ids of events that a test sent by itself, which the publishers do not know
 */
export async function eventsWithTwoIds(
  db: Db,
  clientTokens: readonly string[],
  acknowledged: readonly Acknowledged[],
  receiver: Receiver,
  beside: ReadonlySet<string>,
): Promise<string[]> {
  const idOf = new Map<string, string>();
  const wrong: string[] = [];
  const note = (eventId: string, id: string) => {
    const before = idOf.get(eventId);
    if (before !== undefined && before !== id) wrong.push(`${eventId}: ${before} and ${id}`);
    idOf.set(eventId, id);
  };
  for (const event of acknowledged) note(event.eventId, event.notificationId);
  const known = new Set(idOf.values());
  for (const id of receiver.arrivals.keys()) {
    if (known.has(id) || beside.has(id)) continue;
    const record = await findRecord(db, clientTokens, id);
    if (record !== undefined) note(record.eventId, id);
    else if (!(await hasDroppedRecords(db, clientTokens))) wrong.push(`${id} was received and has no record`);
  }
  return wrong;
}

/** A client's oldest records go once it has 10,000. */
async function hasDroppedRecords(db: Db, clientTokens: readonly string[]): Promise<boolean> {
  const listed = await Promise.all(clientTokens.map((one) => db.redis.zcard(db.client(one).notifications)));
  return listed.some((count) => count >= 10_000);
}

async function findRecord(db: Db, clientTokens: readonly string[], id: string) {
  for (const clientToken of clientTokens) {
    const record = await getNotification(db, clientToken, id);
    if (record !== undefined) return record;
  }
  return undefined;
}

/** Those of the tokens that the API does not take, each asking for `clientToken`, which has a URL. */
export async function refusedTokens<T extends { value: string }>(
  apiUrl: string,
  clientToken: string,
  tokens: readonly T[],
): Promise<T[]> {
  const pool = new Pool(apiUrl, { connections: 4 });
  const refused: T[] = [];
  const left = [...tokens];
  async function work(): Promise<void> {
    for (let token = left.pop(); token !== undefined; token = left.pop()) {
      const response = await pool.request({
        method: 'GET',
        path: `/push_notifications?client_token=${clientToken}`,
        headers: { authorization: `Bearer ${token.value}` },
      });
      await response.body.dump();
      if (response.statusCode !== 200) refused.push(token);
    }
  }
  await Promise.all([work(), work(), work(), work()]);
  await pool.close();
  return refused;
}

/** Those that do not have exactly one URL that was answered 200, or have lost it. */
export async function lostRegistrations(
  db: Db,
  registrations: readonly Registered[],
): Promise<(Registered & { stored: string | undefined })[]> {
  const lost = [];
  for (const registered of registrations) {
    const stored = (await getRegistration(db, registered.clientToken))?.url;
    if (registered.urls.length !== 1 || stored !== registered.urls[0]) lost.push({ ...registered, stored });
  }
  return lost;
}
