/** Replays what was delivered in a span of time: catch-up moves a position over the feed, and keeps 5 s' worth of the drain rate waiting. */
import { withSlots } from '../../ids.js';
import { restsBetweenSteps } from '../../promises.js';
import { type Db, timeAt, toPairs } from '../connection/db.js';
import { runScript } from '../connection/library.js';
import { announceClaims } from '../owed/owedClients.js';
import type { OnPiece } from './notificationPages.js';

/** A span of time, ms, of deliveries. Without `until`, until the first call with this `since` in a day. */
export interface Span {
  since: number;
  until?: number | undefined;
  /** What was owed again since then is left out. */
  leaves?: number | undefined;
}

/** Each step blocks Redis for some milliseconds. */
const assetsPerStep = 200;
/** As many as are due at most: for so many seconds of the drain rate. What waits for a later time does not count. */
const keptWaitingSeconds = 5;
/** What a call counts, and what it owes of a replay, at most, in steps of 200. */
const stepsOfCall = 50;
/** Catch-up moves a replay for so long, then sends and plans; with the time for which it sends that is less than `AWAKE_MS` of endpoint.lua. */
const movedMs = 2500;
const hourMs = 3_600_000;
/** A delivery within this time after its event is not noted as late (`note_late` in settle.lua). */
const lateMs = 60_000;

/**
 * Counts the assets of a span: those whose newest notification was delivered in that time; none if it was replayed in the last day (`isSame`).
 * @returns `leftOut`: those that were owed again lately; `isAtLeast`: there are more than these
 */
export async function countSpan(db: Db, clientToken: string, span: Span, onPiece: OnPiece) {
  const { since, until, leaves } = span;
  const now = await timeAt(db, db.client(clientToken).feed);
  // The same replay once more owes nothing.
  const replayed = await db.redis.get(db.client(clientToken).replayed(since, until ?? ''));
  if (replayed !== null)
    return { count: 0, leftOut: 0, isAtLeast: false, isSame: true, until: Number(replayed) };
  const till = until ?? now;
  const rest = restsBetweenSteps();
  let [count, leftOut] = [0, 0];
  let position = await beginning(db, clientToken, since, till);
  for (let step = 0; ; step++) {
    const { assets, last, isEnd } = await nextAssets(db, clientToken, position, '+inf');
    if (assets.length > 0) {
      const args = [since, till, leaves ?? '', '', '', '', ...assets];
      const [some, left] = await runScript<[number, number]>(db, 'replaySome', clientToken, args);
      count += some;
      leftOut += left;
    }
    onPiece();
    if (isEnd || step + 1 === stepsOfCall)
      return { count, leftOut, isAtLeast: !isEnd, isSame: false, until: till };
    position = last;
    await rest();
  }
}

/**
 * Begins a replay, unless another one runs, and owes the first assets. The caller wakes catch-up.
 * @param plain moves it: it begins again where Redis loses a step
 */
export async function beginReplay(
  db: Db,
  clientToken: string,
  { since, until, leaves }: Span,
  plain: Db = db,
) {
  const now = await timeAt(db, db.client(clientToken).feed);
  await announceClaims(db, clientToken);
  const from = await beginning(db, clientToken, since, until ?? now);
  type Begun = [outcome: 'begun' | 'same' | 'another', since: number, until: number];
  const args = [since, until ?? '', from, leaves ?? ''];
  const [outcome, ...span] = await runScript<Begun>(db, 'beginReplay', clientToken, args);
  if (outcome !== 'another') await moveReplay(plain, clientToken, stepsOfCall);
  return { outcome, since: span[0], until: span[1] };
}

/** Stops a replay of this span. @returns false if none runs */
export const stopReplay = async (db: Db, clientToken: string, { since, until }: Span) =>
  (await runScript(db, 'stopReplay', clientToken, [since, until ?? ''])) === 1;

type Running = [due: number, at: string, end: string, ...span: string[]];

/** Owes more of a replay that runs, until enough is due for 5 s of the drain rate, for a bounded time. */
export async function moveReplay(db: Db, clientToken: string, steps = Number.POSITIVE_INFINITY) {
  const endsAt = performance.now() + movedMs;
  const enough = keptWaitingSeconds * db.settings.drainPerSecond;
  const rest = restsBetweenSteps();
  for (let step = 0; step < steps && performance.now() < endsAt; step++) {
    const running = await runScript<Running | null>(db, 'readReplay', clientToken);
    if (running === null || running[0] >= enough) return;
    const [, at, end, ...span] = running;
    const { assets, last, isEnd } = await nextAssets(db, clientToken, at, end);
    const args = [...span, at, last, isEnd ? 1 : 0, ...assets];
    await runScript(db, 'replaySome', clientToken, args);
    await rest();
  }
}

/** Returns the position after which the feed may have what was delivered in a span: before the oldest that was delivered late then. */
async function beginning(db: Db, clientToken: string, since: number, till: number): Promise<string> {
  const late = await db.redis.hgetall(db.client(clientToken).late);
  const inSpan = Object.entries(late).flatMap(([hour, updatedAt]) =>
    Number(hour) >= Math.floor(since / hourMs) && Number(hour) * hourMs <= till ? [Number(updatedAt)] : [],
  );
  return String(Math.max((Math.min(since, ...inSpan) - lateMs) * 1000, 0));
}

/** Reads the next assets of the feed, each with its slot, and the position of the last. */
async function nextAssets(db: Db, clientToken: string, after: string, end: string) {
  const { feed } = db.client(clientToken);
  const flat = await db.redis.zrangebyscore(feed, `(${after}`, end, 'WITHSCORES', 'LIMIT', 0, assetsPerStep);
  const entries = toPairs(flat);
  const assets = withSlots(entries.map(([platformId]) => platformId));
  return { assets, last: entries.at(-1)?.[1] ?? after, isEnd: entries.length < assetsPerStep };
}
