/** Makes notifications due or owed again, or lets failed ones go. */
import { ApiError, badParameter } from '../http/apiError.js';
import { mapInPages } from '../promises.js';
import { type Db, nowOf, timeAt } from '../redis/connection/db.js';
import { getNotification, readAttemptsOf } from '../redis/notifications/notifications.js';
import {
  dismissFailed,
  recoverFailed,
  redeliver as redeliverNotification,
} from '../redis/notifications/redeliver.js';
import { beginReplay, countSpan, type Span, stopReplay } from '../redis/notifications/replay.js';
import { feedSince } from '../redis/notifications/updates.js';
import type { AttemptRecord } from '../redis/owed/standing.js';
import { type WaitReason, waits } from '../redis/owed/waitReasons.js';
import { type Endpoint, getEndpoint } from '../redis/records/endpoint.js';
import { type Actor, type Admit, act, anyOrSupport, support, type Tone } from './act.js';
import { type Listed, type One, readPage } from './notifications.js';
import { presentTime } from './present.js';
import { type About, requireNotification, requireRegistration } from './subjects.js';

/** Sends a notification again: a waiting one is due now, an ended one is owed again, or another of its asset that is owed or has failed. */
export const redeliver = act('notification redeliver', anyOrSupport, async (actor, given: One, admit) => {
  const { client, id } = given;
  const { clientToken } = client;
  const db = await actor.db();
  const { notificationId, state } = await requireNotification(db, client, id);
  await requireRegistration(db, client);
  const before = { client_token: clientToken, state };
  const about = { notification_id: notificationId };
  await admit({ target: notificationId, before, after: { due: 'now' }, about }, { sends: 1 });
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
});

interface Range extends About {
  /** Times are ms. */
  since: number;
  until?: number | undefined;
  dry_run?: boolean | undefined;
  /** A publisher's; an operator's is in each entry of the audit. */
  reason?: string;
}

/** What one act takes: of a publisher about 1 s of work for Redis, of an operator 30 s, before a connection without a byte is closed. */
const failedAtMost = { publisher: 20_000, operator: 200_000 };

/** Makes notifications that ended as failed in a span of time owed again, the oldest of them. */
export const recover = ofFailed('notification recover', recoverFailed, 'owed again');

/** Lets notifications that ended as failed in a span of time go: the oldest of them end as cancelled. */
export const dismiss = ofFailed('notification dismiss', dismissFailed);

/** @param became what an operator is told of many, meanwhile */
function ofFailed(title: string, carryOut: typeof recoverFailed, became?: string) {
  return act(title, anyOrSupport, async (actor, range: Range, admit) => {
    const told = (count: number) => {
      if (became && count % 5000 === 0) actor.warn(`${count} are ${became} so far.`);
    };
    const db = await actor.db();
    const { clientToken } = range.client;
    const work = (own: Db, span: Span & { dryRun: boolean }) =>
      carryOut(own, clientToken, span, failedAtMost[actor.by], told);
    const isEnd = became === undefined;
    // The sweep counts what an operator ends, by the entry.
    const admitEnd: Admit = async (entry, counting) =>
      admit({ ...entry, cancels: (await work(db, { ...range, dryRun: true })).count }, counting);
    const found = await inSpan(actor, range, isEnd && actor.by === 'operator' ? admitEnd : admit, work);
    if (isEnd && !range.dry_run) actor.countCancelled(found.count);
    const since = nowOf(db) - db.settings.keepFailedMs;
    return {
      ...answerOf(range, { ...found, since, why: isEnd ? undefined : found.why }),
      more: found.more,
    };
  });
}

/** A relative span, given again within this time, is that of the first; and an operator's replay leaves out what was owed again in it. */
const samePurposeMs = 600_000;

interface Replayed extends Range {
  stop?: boolean | undefined;
  /** The span as an operator has given it, if it depends on the present: `1d`. */
  relative?: string | undefined;
  /** Takes a new span, and leaves nothing out. */
  again?: boolean | undefined;
}

/**
 * Makes assets delivered in a span of time owed again, or stops that. Without `until`, until the first such act in a day: a repeat while it
 * runs, and for a day after, owes nothing twice.
 */
export const replay = act('notification replay', anyOrSupport, async (actor, input: Replayed, admit) => {
  const { stop = false, relative, again = false, ...given } = input;
  const db = await actor.db();
  const { clientToken } = given.client;
  // A count answers a time by Redis' clock, which may be ahead of ours.
  const now = Math.max(nowOf(db), await timeAt(db, db.client(clientToken).feed));
  // A new span is no repeat of the one that began then.
  const anew = { ...given, ...(again && { until: given.until ?? now }), ...(stop && { dry_run: false }) };
  const range = relative === undefined || again ? anew : await asBefore(actor, anew, relative);
  // What is delivered between two repeats would be owed again by the second.
  if (range.until !== undefined && range.until > now)
    throw badParameter(`until must not be later than now, ${presentTime(now)}`);
  if (stop || !range.dry_run) await requireTurn(db, range, stop);
  const leaves = actor.by === 'operator' && !again ? now - samePurposeMs : undefined;
  const found = await inSpan(actor, range, admit, async (own, asked) => {
    const span = { ...asked, leaves };
    if (stop) return { ...nothing, ...(await stopped(own, clientToken, span)) };
    const counted = await countSpan(db, clientToken, span, actor.countPiece);
    if (span.dryRun) return counted;
    const { outcome, since, until } = await beginReplay(own, clientToken, span, db);
    if (outcome === 'another') throw anotherRuns(since, until);
    if (outcome === 'begun' && relative !== undefined) {
      const kept = JSON.stringify({ since: range.since, until: range.until });
      await own.redis.set(db.client(clientToken).replayOf(relative), kept, 'PX', samePurposeMs);
    }
    return { ...counted, until, ...(outcome === 'same' && nothing) };
  });
  const whyNone: (typeof reasonsForNone)[number] = found.isSame
    ? 'already_replayed'
    : found.leftOut > 0
      ? 'owed_again_lately'
      : 'none_delivered';
  return {
    ...answerOf(range, { ...found, since: feedSince(db) }),
    at_least: found.isAtLeast,
    left_out: found.leftOut,
    ...(found.count === 0 && !found.isAtLeast && !stop && { none_because: whyNone }),
  };
});

const nothing = { count: 0, leftOut: 0, isAtLeast: false, isSame: true };

/** Why a replay owes nothing: its span was replayed in the last day; all was owed again a moment ago; nothing was delivered then. */
export const reasonsForNone = ['already_replayed', 'owed_again_lately', 'none_delivered'] as const;

/** Takes the span that the same words meant a moment ago, and says so. */
async function asBefore<Given extends Range>(actor: Actor, given: Given, relative: string): Promise<Given> {
  const db = await actor.db();
  const kept = await db.redis.get(db.client(given.client.clientToken).replayOf(relative));
  if (kept === null) return given;
  const { since, until } = JSON.parse(kept) as Pick<Range, 'since' | 'until'>;
  actor.warn(
    `The same replay was given less than 10 minutes ago: its span is taken, since ${presentTime(since)}. With --again it is a new one.`,
  );
  return { ...given, since, until };
}

const anotherRuns = (since: number, until: number) =>
  badParameter(
    `a replay from ${presentTime(since)} until ${presentTime(until)} runs: wait for its end, or stop it`,
  );
const noneRuns = ({ replay: last }: Pick<Endpoint, 'replay'>) =>
  badParameter(
    `no replay of this time runs${last?.runs ? `, but one since ${presentTime(last.since)}: give that time` : ''}`,
  );

/** Refuses what the store would refuse: the audit has what is made. @throws ApiError 400 */
async function requireTurn(db: Db, { client: { clientToken }, since, until }: Range, stop: boolean) {
  const endpoint = await getEndpoint(db, clientToken);
  const { replay: last } = endpoint;
  const runs = last?.runs === true;
  if (stop) {
    if (!runs || last.since !== since || (until ?? last.untilMs) !== last.untilMs) throw noneRuns(endpoint);
  } else if (runs && !(await db.redis.exists(db.client(clientToken).replayed(since, until ?? ''))))
    throw anotherRuns(last.since, last.untilMs);
}

async function stopped(db: Db, clientToken: string, span: Span) {
  const isStopped = await stopReplay(db, clientToken, span);
  const endpoint = await getEndpoint(db, clientToken);
  if (!isStopped) throw noneRuns(endpoint);
  const { replay: last } = endpoint;
  return { count: last?.count ?? 0, until: last?.untilMs ?? nowOf(db) };
}

/** Nobody asks for nothing: an answer of 0 is not what was wanted. */
const answerOf = (
  { client, dry_run = false, ...span }: Range,
  {
    count,
    since,
    until,
    why,
  }: { count: number; since: number | undefined; until: number; why: WaitReason | undefined },
) => ({
  tone: count > 0 && !why ? 'good' : ('warn' as Tone),
  client_token: client.clientToken,
  dry_run,
  count,
  // What was covered.
  since: presentTime(span.since),
  until: presentTime(until),
  complete_since: presentTime(since),
  ...(why && { waiting_reason: why }),
});

type Found<More> = More & { count: number; until: number; isAtLeast?: boolean };
type InSpan<More> = (db: Db, span: Span & { dryRun: boolean }) => Promise<Found<More>>;

async function inSpan<More>(actor: Actor, range: Range, admit: Admit, carryOut: InSpan<More>) {
  const { client, since, until, dry_run: dryRun = false, reason } = range;
  if (since > (until ?? nowOf(await actor.db())))
    throw badParameter('since must not be later than until, or now');
  const after = { since: presentTime(since), until: presentTime(until) };
  const about = { since: after.since, until: until && after.until, reason };
  if (!dryRun) await admit({ after, about }, { sends: 1 });
  const found = await actor.change((db) => carryOut(db, { since, until, dryRun }));
  // What follows the first that were looked at may be owed yet.
  if ((found.count === 0 && !found.isAtLeast) || dryRun) return { ...found, why: undefined };
  await actor.wake(client.clientToken);
  const { waitingReason: why = 'due' } = await getEndpoint(await actor.db(), client.clientToken);
  return { ...found, why: ['clear', 'draining'].includes(waits[why].situation) ? undefined : why };
}

/** How the last attempt ended: `failed` in any way, or with this error. */
export const isOfFailure = (attempts: readonly AttemptRecord[], failure: string | undefined): boolean => {
  const error = attempts.at(-1)?.error;
  return failure === undefined || (failure === 'failed' ? error !== undefined : error === failure);
};

type Resent = About & Omit<Listed, 'limit' | 'cursor'> & { failure?: string | undefined; dry_run?: boolean };

const perPage = 200;
/** So many of a list are looked at. */
const pagesAtMost = 10;

/** Sends each asset of the list again, once, by the newest of its notifications that match. */
export const resend = act('notification resend', support, async (actor, given: Resent, admit) => {
  const { client, failure, dry_run = false, ...filter } = given;
  const { clientToken } = client;
  const db = await actor.db();
  await requireRegistration(db, client);
  const newest = new Map<string, string>();
  let cursor: string | undefined;
  for (let i = 0; i === 0 || (cursor !== undefined && i < pagesAtMost); i++) {
    const page = await readPage(db, client, { ...filter, limit: perPage, cursor }, actor.countPiece);
    const ids = page.notifications.map(({ notificationId }) => notificationId);
    const attempts = failure === undefined ? [] : await readAttemptsOf(db, clientToken, ids);
    page.notifications.forEach(({ platformId, notificationId }, n) => {
      const isMeant = isOfFailure(attempts[n] ?? [], failure);
      if (isMeant && !newest.has(platformId)) newest.set(platformId, notificationId);
    });
    cursor = page.cursor;
  }
  let count = newest.size;
  if (!dry_run && count > 0) {
    const { state, platform_id, since, until } = filter;
    const times = { since: presentTime(since), until: presentTime(until) };
    await admit({ after: { count, state, platform_id, failure, ...times } });
    const due = await mapInPages([...newest.values()], 50, (id) =>
      actor.change((own) => redeliverNotification(own, clientToken, id)),
    );
    // One may have gone meanwhile.
    count = due.filter(Boolean).length;
    await actor.wake(clientToken);
  }
  const tone: Tone = count > 0 ? 'good' : 'warn';
  const covered = { since: presentTime(filter.since), until: presentTime(filter.until ?? Date.now()) };
  return { tone, client_token: clientToken, dry_run, count, ...covered, has_more: cursor !== undefined };
});
