import { type ClaimedAndTaken, claimAndTakeEvents } from '../src/store/claimAndTake.js';
import { isRedisUnavailable } from '../src/store/db.js';
import { waitForDisk } from '../src/store/durable.js';
import type { Look } from '../src/store/look.js';
import { announceClaims } from '../src/store/owed.js';
import type { Take, Taken } from '../src/store/take.js';
import { untilRedisAnswers } from '../src/store/untilRedisAnswers.js';
import { indexesByClient, isShort, leftOf } from '../workflows/leaving.js';
import { type AttemptOutcome, attemptTaken, makeAttempt } from './attempt.js';
import type { ActivityDeps } from './deps.js';
import { leaveOnDisk, wake } from './leaveToCatchUp.js';
import type { AcceptedEvent, ArrivedEvent, EventOutcome, OwedOutcome } from './outcome.js';

/** First attempts are waited for this long; a POST still under way then goes on under its lease. */
const waitMs = 500;

/**
 * Claims every event and attempts what it claimed, once, all at the same time; what the intake has begun already is
 * waited for. One outcome per event, in order.
 * @throws when Redis is away: nothing is lost by doing all of it again
 */
export async function claimAndAttempt(deps: ActivityDeps, events: AcceptedEvent[]): Promise<EventOutcome[]> {
  const begun = deps.ahead?.join(events) ?? [];
  const rest = events.filter((_, i) => begun[i] === undefined);
  const own = rest.length === 0 ? [] : await beginAttempts(deps, rest);
  const attempts = events.map((_, i) => begun[i] ?? Promise.resolve(own.shift() as FirstAttempt));
  const { pace } = deps;
  const first = events[0];
  if (first !== undefined && pace !== undefined) {
    const sent = attempts.map((attempt) => attempt.then((one) => one.sent));
    void Promise.allSettled(sent).then(() => pace.tell(first.notificationId));
  }
  return await Promise.all(attempts.map(async (attempt) => (await attempt).outcome));
}

/** What is under way of one event. None of its promises rejects. */
export interface FirstAttempt {
  /** What it brings, where it had not been looked at before; undefined too where its claim failed. */
  look: Look | undefined;
  /** Whether the claims of its client's events are decided. */
  isClaimed: boolean;
  /** Every POST that is made of its client's events has been sent. */
  sent: Promise<unknown>;
  /** Known when each of its client's attempts has ended, or was waited for long enough, and what is catch-up's is left to it. */
  outcome: Promise<EventOutcome>;
}

/** Claims every event; then the first attempts go on by themselves. One per event, in order. @throws when Redis is away */
export async function beginAttempts(deps: ActivityDeps, events: ArrivedEvent[]): Promise<FirstAttempt[]> {
  const byClient = indexesByClient(events);
  // Over one connection it comes before the claims.
  const announced = announceClaims(deps.db, byClient.keys());
  const started = Date.now();
  const attempts = new Array<FirstAttempt>(events.length);
  const claiming = [...byClient].map(async ([clientToken, indexes]) => {
    const itsEvents = indexes.map((i) => events[i] as ArrivedEvent);
    const decided = await claimAndTake(deps, clientToken, itsEvents, announced);
    workThrough(deps, itsEvents, decided, started).forEach((attempt, n) => {
      attempts[indexes[n] as number] = attempt;
    });
  });
  await Promise.all(claiming);
  return attempts;
}

/**
 * The attempts of one client's events. What found no place follows as its own attempts before it are delivered; where
 * none is, because others hold all places or the endpoint fails or is slow, it is left owed.
 */
function workThrough(
  deps: ActivityDeps,
  events: ArrivedEvent[],
  decided: Decided[],
  started: number,
): FirstAttempt[] {
  const outcomes = new Array<EventOutcome>(events.length);
  const noPlace: number[] = [];
  const first: { n: number; claim: number; take: Taken }[] = [];
  decided.forEach(({ claim, take }, n) => {
    const outcome = endOf(deps, claim, take);
    if (outcome !== undefined) outcomes[n] = outcome;
    else if (take?.kind === 'taken' && 'claim' in claim) first.push({ n, claim: claim.claim, take });
    if (take?.kind === 'refused' && take.reason === 'full') noPlace.push(n);
  });
  const hand = async ({ n, claim, take }: (typeof first)[number]): Promise<void> => {
    const event = events[n] as ArrivedEvent;
    let outcome = await waitFor(deps, event, claim, started, attemptTaken(deps, event, take, 'first'));
    outcomes[n] = outcome;
    while (outcome.kind === 'ended' && outcome.state === 'delivered' && Date.now() < started + waitMs) {
      const next = noPlace.shift();
      if (next === undefined) return;
      const waiting = decided[next]?.claim as { claim: number };
      const item = { ...(events[next] as ArrivedEvent), claim: waiting.claim };
      outcome = await waitFor(deps, item, item.claim, started, makeAttempt(deps, item, 'first'));
      outcomes[next] = outcome;
    }
  };
  const done = Promise.all(first.map(hand)).then(() => leaveAtOnce(deps, events, outcomes));
  const isClaimed = decided.every(({ claim }) => claim.kind !== 'unclaimed');
  const sent = noPlace.length === 0 ? Promise.resolve() : done;
  return decided.map(({ look }, n) => ({
    look,
    isClaimed,
    sent,
    outcome: done.then(() => outcomes[n] as EventOutcome),
  }));
}

/**
 * Leaves to catch-up what a workflow would not try again (a failing, paused or full client, backfill): an activity
 * of its own for that costs more than the attempts. Where it can't be done in a moment, the workflow does it.
 */
async function leaveAtOnce(
  deps: ActivityDeps,
  events: ArrivedEvent[],
  outcomes: EventOutcome[],
): Promise<void> {
  const left = [...outcomes.keys()].filter((n) => outcomes[n]?.kind !== 'ended');
  if (left.length === 0 || !left.every((n) => waitsForCatchUp(outcomes[n]))) return;
  const toCatchUp = leftOf(events, outcomes, left);
  try {
    if (deps.answersAreOnDisk?.()) await wake(deps, toCatchUp);
    else if (!(await waitForDisk(deps.db)) || (await leaveOnDisk(deps, toCatchUp)).length > 0) return;
    for (const n of left) (outcomes[n] as OwedOutcome).left = true;
  } catch (err) {
    deps.log.debug({ err }, 'left to the workflow');
  }
}

function waitsForCatchUp(outcome: EventOutcome | undefined): boolean {
  return outcome?.kind === 'owed' && !isShort(outcome);
}

/** The outcome of an event that is not attempted here. */
function endOf(
  deps: ActivityDeps,
  claim: Decided['claim'],
  take: Take | undefined,
): EventOutcome | undefined {
  switch (claim.kind) {
    case 'unclaimed':
      return claim;
    case 'ended':
      return { kind: 'ended', state: claim.state };
    case 'not_new':
      return { kind: 'ended', state: claim.kind };
    case 'not_needed':
      deps.metrics.ended('not_needed');
      return { kind: 'ended', state: 'not_needed' };
    case 'claimed':
    case 'mine':
      if (take === undefined)
        return { kind: 'owed', reason: 'backfill', inMs: 0, failures: 0, claim: claim.claim };
      return take.kind === 'taken' ? undefined : outcomeOf(take, claim.claim);
  }
}

type Decided =
  | ClaimedAndTaken
  | { claim: { kind: 'unclaimed'; error: string }; take?: undefined; look?: undefined };

/** What has been taken by a call whose answer is lost has nobody else: it is asked for again. */
async function claimAndTake(
  deps: ActivityDeps,
  clientToken: string,
  events: ArrivedEvent[],
  announced: Promise<void>,
): Promise<Decided[]> {
  const { db } = deps;
  try {
    return await untilRedisAnswers(async (lostSince) => {
      const since = lostSince === undefined ? undefined : lostSince + db.clockOffsetMs();
      const isAnnounced = since === undefined ? announced : announceClaims(db, [clientToken]);
      const claiming = claimAndTakeEvents(db, clientToken, events, deps.delivery, since);
      const [decided] = await Promise.all([claiming, isAnnounced]);
      return decided;
    });
  } catch (err) {
    if (isRedisUnavailable(err)) throw err;
    // One client's broken key must not hold up the others of its group (DESIGN rule 10).
    deps.log.error({ err, client_token: clientToken, events: events.length }, 'claim failed');
    return events.map(() => ({ claim: { kind: 'unclaimed', error: 'the claim failed, see the log' } }));
  }
}

/** An attempt's outcome; `under_way` once the waiting time is over. */
async function waitFor(
  deps: ActivityDeps,
  event: ArrivedEvent,
  claimNumber: number,
  started: number,
  attempting: Promise<AttemptOutcome>,
): Promise<EventOutcome> {
  const attempt = attempting.catch((err: unknown) => {
    deps.log.warn({ err, notification_id: event.notificationId }, 'attempt broke off');
    return { kind: 'refused', reason: 'leased', inMs: deps.delivery.leaseMs } as AttemptOutcome;
  });
  const outcome = await Promise.race([attempt, later(deps, attempt, started)]);
  if (outcome === 'under_way') {
    return {
      kind: 'owed',
      reason: 'under_way',
      inMs: deps.delivery.leaseMs,
      failures: 0,
      claim: claimNumber,
    };
  }
  return outcomeOf(outcome, claimNumber);
}

/** Answers `under_way` when the waiting time is over, and keeps the attempt on the list of what goes on. */
function later(deps: ActivityDeps, attempt: Promise<unknown>, started: number): Promise<'under_way'> {
  return new Promise((resolve) => {
    const timer = setTimeout(
      () => {
        deps.underWay.add(attempt);
        void attempt.finally(() => deps.underWay.delete(attempt));
        resolve('under_way');
      },
      Math.max(0, started + waitMs - Date.now()),
    );
    void attempt.finally(() => clearTimeout(timer));
  });
}

export function outcomeOf(outcome: AttemptOutcome, claim: number): EventOutcome {
  switch (outcome.kind) {
    case 'delivered':
    case 'failed':
      return {
        kind: 'ended',
        state: outcome.kind,
        ...(outcome.status === undefined ? {} : { status: outcome.status }),
      };
    case 'gone':
      return { kind: 'ended', state: outcome.state ?? 'settled elsewhere' };
    case 'reclaim':
      return { kind: 'unclaimed', error: 'Redis has lost this claim' };
    case 'retry':
      return {
        kind: 'owed',
        reason: 'retry',
        inMs: outcome.inMs,
        failures: outcome.failures,
        claim,
        ...(outcome.status === undefined ? {} : { status: outcome.status }),
        ...(outcome.error === undefined ? {} : { error: outcome.error }),
      };
    case 'refused':
      return { kind: 'owed', reason: outcome.reason, inMs: outcome.inMs, failures: 0, claim };
  }
}
