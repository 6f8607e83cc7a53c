import { type ClaimedAndTaken, claimAndTakeEvents } from '../src/store/claimAndTake.js';
import { isRedisUnavailable } from '../src/store/db.js';
import { waitForDisk } from '../src/store/durable.js';
import { announceClaims } from '../src/store/owed.js';
import type { Take, Taken } from '../src/store/take.js';
import { indexesByClient, isShort, leftOf } from '../workflows/leaving.js';
import { type AttemptOutcome, attemptTaken, makeAttempt } from './attempt.js';
import type { ActivityDeps } from './deps.js';
import { leaveOnDisk } from './leaveToCatchUp.js';
import type { AcceptedEvent, EventOutcome, OwedOutcome } from './outcome.js';

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
  const own = rest.length === 0 ? undefined : await beginAttempts(deps, rest);
  const { pace } = deps;
  const first = events[0];
  if (first !== undefined && pace !== undefined) {
    const sent = new Set([own?.sent, ...begun.map((one) => one?.sent)]);
    void Promise.all(sent).then(() => pace.tell(first.notificationId));
  }
  const ofRest = (await own?.outcomes) ?? [];
  const outcomes = await Promise.all(
    events.map((_, i) => begun[i]?.outcome ?? (ofRest.shift() as EventOutcome)),
  );
  await leaveAtOnce(deps, events, outcomes);
  return outcomes;
}

/** First attempts under way. */
export interface FirstAttempts {
  /** What is under way of its client, one per event, in order. */
  ofClient: WorkOfClient[];
  /** Every POST that is made has been sent. */
  sent: Promise<unknown>;
  /** One per event, in order. */
  outcomes: Promise<EventOutcome[]>;
}

/** Of one client. */
export interface WorkOfClient {
  isClaimed: boolean;
  /** Every POST that is made has been sent. */
  sent: Promise<unknown>;
  /** Each has ended, or was waited for long enough. */
  done: Promise<unknown>;
}

/** Claims every event; then the first attempts go on by themselves. @throws when Redis is away */
export async function beginAttempts(deps: ActivityDeps, events: AcceptedEvent[]): Promise<FirstAttempts> {
  const byClient = indexesByClient(events);
  // Over one connection it comes before the claims.
  const announced = announceClaims(deps.db, byClient.keys());
  const started = Date.now();
  const ofClient = new Array<WorkOfClient>(events.length);
  const outcomes = new Array<EventOutcome>(events.length);
  const claiming = [...byClient].map(async ([clientToken, indexes]) => {
    const itsEvents = indexes.map((i) => events[i] as AcceptedEvent);
    const decided = await claimAndTake(deps, clientToken, itsEvents);
    const work = workThrough(deps, itsEvents, decided, started, (n, outcome) => {
      outcomes[indexes[n] as number] = outcome;
    });
    for (const i of indexes) ofClient[i] = work;
    return work;
  });
  const [works] = await Promise.all([Promise.all(claiming), announced]);
  return {
    ofClient,
    sent: Promise.all(works.map((work) => work.sent)),
    outcomes: Promise.all(works.map((work) => work.done)).then(() => outcomes),
  };
}

/**
 * Leaves to catch-up what this workflow would not try again (a failing, paused or full client, backfill): an activity
 * of its own for that costs more than the attempts. Where it can't be done in a moment, the workflow does it.
 */
async function leaveAtOnce(
  deps: ActivityDeps,
  events: AcceptedEvent[],
  outcomes: EventOutcome[],
): Promise<void> {
  if (!outcomes.some(waitsForCatchUp)) return;
  const left = [...indexesByClient(events).values()]
    .map((indexes) => indexes.filter((i) => outcomes[i]?.kind !== 'ended'))
    .filter((indexes) => indexes.length > 0 && indexes.every((i) => waitsForCatchUp(outcomes[i])));
  if (left.length === 0) return;
  try {
    if (!(await waitForDisk(deps.db))) return;
    await Promise.all(
      left.map(async (indexes) => {
        const lost = await leaveOnDisk(deps, leftOf(events, outcomes, indexes));
        if (lost.length === 0) for (const i of indexes) (outcomes[i] as OwedOutcome).left = true;
      }),
    );
  } catch (err) {
    deps.log.debug({ err }, 'left to the workflow');
  }
}

function waitsForCatchUp(outcome: EventOutcome | undefined): boolean {
  return outcome?.kind === 'owed' && !isShort(outcome);
}

/**
 * The attempts of one client's events. What found no place follows as its own attempts before it are delivered; where
 * none is, because others hold all places or the endpoint fails or is slow, it is left owed.
 */
function workThrough(
  deps: ActivityDeps,
  events: AcceptedEvent[],
  decided: Decided[],
  started: number,
  end: (n: number, outcome: EventOutcome) => void,
): WorkOfClient {
  const noPlace: number[] = [];
  const first: { n: number; claim: number; take: Taken }[] = [];
  decided.forEach(({ claim, take }, n) => {
    const outcome = endOf(deps, claim, take);
    if (outcome !== undefined) end(n, outcome);
    else if (take?.kind === 'taken' && 'claim' in claim) first.push({ n, claim: claim.claim, take });
    if (take?.kind === 'refused' && take.reason === 'full') noPlace.push(n);
  });
  const hand = async ({ n, claim, take }: (typeof first)[number]): Promise<void> => {
    const event = events[n] as AcceptedEvent;
    let outcome = await waitFor(deps, event, claim, started, attemptTaken(deps, event, take, 'first'));
    end(n, outcome);
    while (outcome.kind === 'ended' && outcome.state === 'delivered' && Date.now() < started + waitMs) {
      const next = noPlace.shift();
      if (next === undefined) return;
      const waiting = decided[next]?.claim as { claim: number };
      const item = { ...(events[next] as AcceptedEvent), claim: waiting.claim };
      outcome = await waitFor(deps, item, item.claim, started, makeAttempt(deps, item, 'first'));
      end(next, outcome);
    }
  };
  const hands = first.map(hand);
  const done = Promise.all(hands);
  return {
    isClaimed: decided.every(({ claim }) => claim.kind !== 'unclaimed'),
    sent: noPlace.length === 0 ? Promise.resolve() : done,
    done,
  };
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

type Decided = ClaimedAndTaken | { claim: { kind: 'unclaimed'; error: string }; take?: undefined };

async function claimAndTake(
  deps: ActivityDeps,
  clientToken: string,
  events: AcceptedEvent[],
): Promise<Decided[]> {
  try {
    return await claimAndTakeEvents(deps.db, clientToken, events, deps.delivery);
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
  event: AcceptedEvent,
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
