import { type Claim, claimEvent } from '../src/store/claim.js';
import { isRedisUnavailable } from '../src/store/db.js';
import { announceClaims } from '../src/store/owed.js';
import { type AttemptOutcome, makeAttempt } from './attempt.js';
import type { ActivityDeps } from './deps.js';
import type { AcceptedEvent, EventOutcome } from './outcome.js';

/** First attempts are waited for this long; a POST still under way then goes on under its lease. */
const waitMs = 500;

/**
 * Claims every event and attempts what it claimed, once, all at the same time. One outcome per event, in order.
 * @throws when Redis is away: nothing is lost by doing all of it again
 */
export async function claimAndAttempt(deps: ActivityDeps, events: AcceptedEvent[]): Promise<EventOutcome[]> {
  await announceClaims(
    deps.db,
    events.map((e) => e.clientToken),
  );
  const claims = await Promise.all(events.map((event) => claim(deps, event)));
  const started = Date.now();
  return await Promise.all(events.map((event, i) => proceed(deps, event, claims[i] as Claimed, started)));
}

type Claimed = Claim | { kind: 'unclaimed'; error: string };

async function proceed(
  deps: ActivityDeps,
  event: AcceptedEvent,
  claimed: Claimed,
  started: number,
): Promise<EventOutcome> {
  switch (claimed.kind) {
    case 'unclaimed':
      return claimed;
    case 'ended':
      return { kind: 'ended', state: claimed.state };
    case 'not_needed':
      deps.metrics.ended('not_needed');
      return { kind: 'ended', state: 'not_needed' };
    case 'claimed':
    case 'mine':
      return await firstAttempt(deps, event, claimed.claim, started);
  }
}

async function claim(deps: ActivityDeps, event: AcceptedEvent): Promise<Claimed> {
  try {
    return await claimEvent(deps.db, event);
  } catch (err) {
    if (isRedisUnavailable(err)) throw err;
    // One client's broken key must not hold up the others of its group (DESIGN rule 10).
    deps.log.error(
      { err, client_token: event.clientToken, notification_id: event.notificationId },
      'claim failed',
    );
    return { kind: 'unclaimed', error: 'the claim failed, see the log' };
  }
}

async function firstAttempt(
  deps: ActivityDeps,
  event: AcceptedEvent,
  claimNumber: number,
  started: number,
): Promise<EventOutcome> {
  if (event.priority === 'backfill')
    return { kind: 'owed', reason: 'backfill', inMs: 0, failures: 0, claim: claimNumber };
  const attempt = makeAttempt(deps, { ...event, claim: claimNumber }, 'first').catch((err: unknown) => {
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
      return { kind: 'ended', state: 'settled elsewhere' };
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
