/** The outcome of a notification, as attempts report it to workflows and workflows to people. It never has a URL's query. */
import type { Standing, WaitReason } from '../redis/owed/standing.js';

export type Outcome = Ended | Waiting;

export interface Ended {
  /** `unknown`: the notification ended elsewhere and its record is gone. */
  state: 'delivered' | 'superseded' | 'not_needed' | 'failed' | 'cancelled' | 'unknown';
  /** HTTP status of the attempt that ended the notification. */
  status?: number;
  milliseconds?: number;
}

/** The notification is still owed. */
export interface Waiting {
  state: 'waiting';
  /** Why the notification is not sent now; `own_failure`: this process could not make the attempt. */
  reason: WaitReason | 'own_failure';
  /** When the notification may be sent, ms by this machine's clock; absent while that depends on a change from outside or on the end of an attempt. */
  at?: number;
  /** Failed attempts so far. */
  failures: number;
  status?: number;
  error?: string;
  /** Host of the failed attempt's URL. */
  target?: string;
}

/** The number of retries that a workflow waits for, some minutes; catch-up makes the later retries (settle.lua has this number too). */
export const shortRetries = 3;

/** Returns whether the event's workflow waits for this outcome; otherwise catch-up does, if the notification is still owed. */
export function isRetriedShortly(outcome: Outcome): outcome is Waiting {
  if (outcome.state !== 'waiting') return false;
  return outcome.reason === 'in_flight' || (outcome.reason === 'retry' && outcome.failures <= shortRetries);
}

/** Returns whether the notification waits only for its turn, and may be sent within moments. */
export function isSoon(outcome: Outcome): boolean {
  if (outcome.state !== 'waiting') return false;
  return ['due', 'full', 'rate'].includes(outcome.reason) || isRetriedShortly(outcome);
}

/** Translates how a notification stands. */
export function outcomeOfStanding(standing: Exclude<Standing, { kind: 'lost' }>): Outcome {
  if (standing.kind === 'ended') {
    const { status, milliseconds } = standing.last ?? {};
    return { state: endedState(standing.state), status, milliseconds };
  }
  const { reason, inMs, failures, last } = standing;
  return {
    state: 'waiting',
    reason,
    at: inMs === undefined ? undefined : Date.now() + inMs,
    failures,
    status: last?.status,
    error: last?.error,
    target: last && targetOf(last.url),
  };
}

export function endedState(state: string | undefined): Ended['state'] {
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

/** Returns the host of a URL: its path and query may hold a secret. */
export const targetOf = (url: string): string => new URL(url).host;

/** The outcomes of a workflow's events, short enough for its history: delivered events are counted, the others listed. */
export interface Report {
  delivered: number;
  /** The highest status of the delivered events. */
  status?: number;
  /** Duration of the slowest attempt of the delivered events. */
  milliseconds?: number;
  /** Every other event, by its index in the input. */
  rest: { index: number; outcome: Outcome }[];
}

/** Sums up the outcomes of a workflow's events, in their order. */
export function reportOf(outcomes: readonly Outcome[]): Report {
  const report: Report = { delivered: 0, rest: [] };
  outcomes.forEach((outcome, index) => {
    if (outcome.state !== 'delivered') {
      report.rest.push({ index, outcome });
      return;
    }
    report.delivered++;
    report.status = highest(report.status, outcome.status);
    report.milliseconds = highest(report.milliseconds, outcome.milliseconds);
  });
  return report;
}

export function highest(a: number | undefined, b: number | undefined): number | undefined {
  return a === undefined ? b : b === undefined ? a : Math.max(a, b);
}
