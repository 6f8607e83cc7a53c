/** The outcomes of a workflow's events, short enough for its history: delivered events are counted, the others listed. */
import type { Outcome } from './outcome.js';

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
    const { status, milliseconds } = outcome;
    if (status !== undefined) report.status = Math.max(report.status ?? 0, status);
    if (milliseconds !== undefined) report.milliseconds = Math.max(report.milliseconds ?? 0, milliseconds);
  });
  return report;
}
