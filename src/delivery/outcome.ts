/** Decides which outcomes a workflow waits for, and sums them up for people. */
import { shared } from '../constants.js';
import type { ClaimedEvent } from '../redis/owed/claim.js';
import type { Outcome, Waiting } from '../redis/owed/standing.js';
import { waits } from '../redis/owed/waitReasons.js';

/** Returns whether the event's workflow waits for this outcome; otherwise catch-up does, if the notification is still owed. */
export function isRetriedShortly(outcome: Outcome): outcome is Waiting {
  if (outcome.state !== 'waiting') return false;
  return (
    outcome.reason === 'in_flight' || (outcome.reason === 'retry' && outcome.failures <= shared.shortRetries)
  );
}

export function isCrowded(outcome: Outcome): boolean {
  if (outcome.state !== 'waiting' || outcome.reason === 'own_failure') return false;
  return waits[outcome.reason].endsBy === 'place';
}

/** The outcomes of a workflow's events, short enough for its history: delivered events are counted, the others listed. */
export interface Report {
  delivered: number;
  status?: number;
  /** Duration of the slowest attempt of the delivered events. */
  milliseconds?: number;
  /** Every other event, by its index in the input. */
  rest: { index: number; outcome: Outcome }[];
}

export interface EnrichmentInput {
  /** Those that were not delivered before its start. */
  events: ClaimedEvent[];
  before: Report;
}

export function sumUp(outcomes: readonly Outcome[]): Report {
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

export const highest = (a: number | undefined, b: number | undefined): number | undefined =>
  a === undefined ? b : b === undefined ? a : Math.max(a, b);
