/** What became of a workflow's events, short enough for its history: what was delivered is counted, the rest is listed. */
import type { Outcome } from './outcome.js';

export interface Report {
  delivered: number;
  /** The highest of those delivered. */
  status?: number;
  /** The slowest of those delivered. */
  milliseconds?: number;
  /** Every other event, by its index among those asked for. */
  rest: { index: number; outcome: Outcome }[];
}

export function reportOf(outcomes: readonly Outcome[]): Report {
  const report: Report = { delivered: 0, rest: [] };
  outcomes.forEach((outcome, index) => {
    if (outcome.state !== 'delivered') {
      report.rest.push({ index, outcome });
      return;
    }
    report.delivered++;
    const { status, milliseconds } = outcome;
    if (status !== undefined) report.status = Math.max(report.status ?? 0, status);
    if (milliseconds !== undefined) report.milliseconds = Math.max(report.milliseconds ?? 0, milliseconds);
  });
  return report;
}
