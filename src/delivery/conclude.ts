/** Translates the answers of takes and settled attempts into outcomes, for the callers who wait for them. */
import { claimAgain } from '../redis/owed/claim.js';
import type { Settled, Verdict } from '../redis/owed/settle.js';
import type { Take } from '../redis/owed/take.js';
import { tellStateChange } from '../tellStateChange.js';
import type { Answered, OwnFailure } from './attempt.js';
import { longestParkMs } from './clientQueue.js';
import type { DeliveryDeps } from './deps.js';
import type { Outcome, Waiting } from './outcome.js';
import type { Delivery, Work } from './work.js';

/** Outcome: another holder has the notification, or had it when the answer was lost. */
export function leasedFor(inMs: number): Waiting {
  return { state: 'waiting', reason: 'leased', inMs, failures: 0 };
}

/** Outcome: the notification was no longer owed when a place was asked for. */
export function outcomeOfGone({ state, last }: Extract<Take, { kind: 'gone' }>): Outcome {
  const { error: _, ...answer } = last ?? {};
  return { state: endedState(state), ...answer };
}

/** Outcome: why a take was refused, and how the last attempt failed. */
export function outcomeOfRefusal({
  reason,
  inMs,
  failures = 0,
  last,
}: Extract<Take, { kind: 'refused' }>): Outcome {
  const { milliseconds: _, ...answer } = last ?? {};
  return { state: 'waiting', reason, inMs, failures, ...answer };
}

/** Outcome of a settled attempt. */
export function outcomeOfAttempt({ result, target }: Answered, settled: Settled): Outcome {
  const status = result.status === undefined ? {} : { status: result.status };
  switch (settled.outcome) {
    case 'delivered':
    case 'failed':
      return { state: settled.outcome, ...status, milliseconds: Math.round(result.milliseconds) };
    case 'gone':
      // Superseded, cancelled or ended by another attempt while this one was under way: its record says which.
      return { state: endedState(settled.state) };
    case 'retry':
      return {
        state: 'waiting',
        reason: 'retry',
        inMs: settled.inMs,
        failures: settled.failures,
        ...status,
        ...(result.error === undefined ? {} : { error: result.error }),
        target,
      };
  }
}

/** Claims again an event whose claim Redis has lost. */
export async function claimLost({ db, log }: DeliveryDeps, { event }: Delivery): Promise<Outcome> {
  if (event === undefined) return { state: 'unknown' };
  try {
    const claim = await claimAgain(db, event);
    switch (claim.kind) {
      case 'claimed':
        return { state: 'waiting', reason: 'not_due', inMs: 0, failures: 0 };
      case 'ended':
        return { state: endedState(claim.state) };
      default:
        return { state: claim.kind === 'not_needed' ? 'not_needed' : 'unknown' };
    }
  } catch (err) {
    log.error({ err, client_token: event.clientToken }, 'a lost claim could not be repeated');
    return leasedFor(longestParkMs);
  }
}

/** Logs, counts and times a settled attempt; logs and counts the change of its registration's state, and has its notice sent. */
export function tellAttempt(
  deps: DeliveryDeps,
  { delivery, mode }: Work,
  { verdict, result: { ok, status, error } }: Answered,
  settled: Settled,
): void {
  const { clientToken, notificationId, priority } = delivery;
  const { outcome, failures, change } = settled;
  if (!ok) {
    const names = { client_token: clientToken, notification_id: notificationId };
    deps.log.info({ ...names, status, error, outcome, failures }, 'attempt failed');
  }
  if (mode !== 'redeliver') timeAttempt(deps, priority, verdict, settled);
  if (outcome === 'delivered' || outcome === 'failed') deps.metrics.ended(outcome);
  if (change === undefined) return;
  tellStateChange(deps, { clientToken, ...change });
  deps.notices.tell(clientToken);
}

/** Logs an own failure, after which the client's attempts pause. */
export function tellOwnFailure(
  { log }: DeliveryDeps,
  { delivery: { clientToken, notificationId } }: Work,
  { cause, err }: OwnFailure,
  pause_ms: number,
): void {
  log.warn(
    { err, cause, client_token: clientToken, notification_id: notificationId, pause_ms },
    'an attempt could not be made because of an own failure: the next one follows after a pause',
  );
}

/** Records the time from an event's acceptance to the first attempt of its notification, and to its delivery. */
function timeAttempt(
  { metrics }: DeliveryDeps,
  priority: Delivery['priority'],
  { attempt }: Verdict,
  { outcome, acceptedAt, isFirst }: Settled,
): void {
  if (acceptedAt === undefined) return;
  if (isFirst) metrics.firstAttempted(priority, attempt.at - acceptedAt);
  if (outcome === 'delivered') metrics.delivered(priority, attempt.at + attempt.milliseconds - acceptedAt);
}

function endedState(state: string | undefined): Exclude<Outcome['state'], 'waiting'> {
  switch (state) {
    case 'delivered':
    case 'superseded':
    case 'not_needed':
    case 'failed':
    case 'cancelled':
      return state;
    default:
      return 'unknown';
  }
}
