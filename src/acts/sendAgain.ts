/** Makes notifications due or owed again, or lets failed ones go. */
import { ApiError, badParameter } from '../http/apiError.js';
import { type Db, nowOf } from '../redis/connection/db.js';
import { getNotification } from '../redis/notifications/notifications.js';
import {
  dismissFailed,
  recoverFailed,
  redeliver as redeliverNotification,
  replayDelivered,
} from '../redis/notifications/redeliver.js';
import { type Actor, act, type Tone } from './act.js';
import { presentTime } from './present.js';
import { requireNotification, requireRegistration, type Subject } from './subjects.js';

/** Sends a notification again: a waiting one is due now, an ended one is owed again, or the newer one that its asset is owed by. */
export const redeliver = act(
  'notification redeliver',
  { publisher: 'any', operator: 'support' },
  async (actor, { client, id }: { client: Subject; id: string | undefined }, title) => {
    const { clientToken } = client;
    const db = await actor.db();
    const { notificationId, state } = await requireNotification(db, client, id);
    await requireRegistration(db, client);
    const entry = {
      target: notificationId,
      before: { client_token: clientToken, state },
      after: { due: 'now' },
      about: { notification_id: notificationId },
    };
    await actor.admit(title, entry, { sends: 1 });
    const dueId = await actor.change((own) => redeliverNotification(own, clientToken, notificationId));
    // Its record may have expired meanwhile.
    if (dueId === undefined) throw new ApiError('unknown_notification');
    await actor.wake(clientToken);
    const why = (await getNotification(db, clientToken, dueId))?.waitingReason;
    const isSent = why === 'due' || why === 'in_flight';
    return {
      tone: isSent || why === undefined ? 'good' : ('warn' as Tone),
      notification_id: dueId,
      client_token: clientToken,
      previous_state: state,
      // Absent if it is sent now.
      ...(!isSent && { waiting_reason: why }),
    };
  },
);

interface Range {
  client: Subject;
  /** Times are ms. */
  since: number;
  until?: number | undefined;
  dryRun?: boolean | undefined;
  /** A publisher's; an operator's is in each entry of the audit. */
  reason?: string;
}

/** Makes notifications that ended as failed in a span of time owed again: the oldest `atMost` of them. */
export const recover = act(
  'notification recover',
  { publisher: 'any', operator: 'support' },
  async (actor, { atMost, ...range }: Range & { atMost: number }, title) => {
    const { clientToken } = range.client;
    const found = await inSpan(actor, range, title, (db, span) =>
      recoverFailed(db, clientToken, span, atMost, (count) => {
        if (count % 5000 === 0) actor.warn(`${count} are owed again so far.`);
      }),
    );
    return { ...answerOf(range, found), more: found.more };
  },
);

/** Lets notifications that ended as failed in a span of time go: the oldest `atMost` of them end as cancelled. */
export const dismiss = act(
  'notification dismiss',
  { publisher: 'any', operator: 'support' },
  async (actor, { atMost, ...range }: Range & { atMost: number }, title) => {
    const found = await inSpan(actor, range, title, (db, span) =>
      dismissFailed(db, range.client.clientToken, span, atMost),
    );
    return { ...answerOf(range, found), more: found.more };
  },
);

/** Makes assets delivered in a span of time owed again. Without `until`, until the first such act in a day: a repeat owes nothing twice. */
export const replay = act(
  'notification replay',
  { publisher: 'any', operator: 'support' },
  async (actor, range: Range, title) => {
    const now = nowOf(await actor.db());
    // What is delivered between two repeats would be owed again by the second.
    if (range.until !== undefined && range.until > now)
      throw badParameter(`until must not be later than now, ${presentTime(now)}`);
    const found = await inSpan(actor, range, title, (db, span) =>
      replayDelivered(db, range.client.clientToken, span, actor.countPiece),
    );
    const { until, listedSince } = found;
    return {
      ...answerOf(range, found),
      until: presentTime(until),
      ...(listedSince !== undefined && { listed_since: presentTime(listedSince) }),
    };
  },
);

/** Nobody asks for nothing: an answer of 0 is not what was wanted. */
const answerOf = ({ client, dryRun = false }: Range, { count }: { count: number }) => ({
  tone: count > 0 ? 'good' : ('warn' as Tone),
  client_token: client.clientToken,
  dry_run: dryRun,
  count,
});

async function inSpan<Found extends { count: number }>(
  actor: Actor,
  { client, since, until, dryRun = false, reason }: Range,
  title: string,
  carryOut: (db: Db, span: { since: number; until?: number | undefined; dryRun: boolean }) => Promise<Found>,
): Promise<Found> {
  const { clientToken } = client;
  if (since > (until ?? nowOf(await actor.db())))
    throw badParameter('since must not be later than until, or now');
  const after = { since: presentTime(since), until: presentTime(until) };
  const about = { since: after.since, until: until && after.until, reason };
  if (!dryRun) await actor.admit(title, { target: clientToken, after, about }, { sends: 1 });
  const found = await actor.change((db) => carryOut(db, { since, until, dryRun }));
  if (found.count > 0 && !dryRun) await actor.wake(clientToken);
  return found;
}
