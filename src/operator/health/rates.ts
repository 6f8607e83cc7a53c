/** Rates of one process of the service, from two readings of its metrics. */
import { setTimeout as sleep } from 'node:timers/promises';

export interface Rates {
  /** Events that brought something to send. */
  accepted_per_second: number;
  delivered_per_second: number;
  failed_attempts_per_second: number;
  tokens_per_second: number;
}

/** The metrics of one process at one moment. */
export interface Reading {
  atMs: number;
  lines: readonly string[];
}

const apartMs = 2000;
const answerWithinMs = 2000;

/** null if there are no metrics to read. */
export async function readRates(adminUrl: string | undefined): Promise<Rates | null> {
  const before = await readMetrics(adminUrl);
  if (before === undefined) return null;
  await sleep(apartMs);
  return ratesBetween(before, await readMetrics(adminUrl));
}

/** undefined if there are no metrics to read. */
export async function readMetrics(adminUrl: string | undefined): Promise<Reading | undefined> {
  if (adminUrl === undefined) return undefined;
  try {
    const response = await fetch(`${adminUrl}/metrics`, { signal: AbortSignal.timeout(answerWithinMs) });
    if (!response.ok) return undefined;
    return { lines: (await response.text()).split('\n'), atMs: performance.now() };
  } catch {
    return undefined;
  }
}

/** null unless both exist. A process that restarted in between counts from 0. */
export function ratesBetween(before: Reading | undefined, after: Reading | undefined): Rates | null {
  if (before === undefined || after === undefined) return null;
  const seconds = (after.atMs - before.atMs) / 1000;
  const rate = (...counters: [name: string, labels?: string][]) => {
    const risen = counters.reduce(
      (sum, [name, labels = '']) =>
        sum + total(after.lines, name, labels) - total(before.lines, name, labels),
      0,
    );
    return Math.round((Math.max(risen, 0) / seconds) * 10) / 10;
  };
  return {
    accepted_per_second: rate(
      ['asset_update_group_events_sum'],
      ['asset_update_events_without_workflow_total'],
    ),
    delivered_per_second: rate(['asset_update_attempt_duration_seconds_count', 'outcome="delivered"']),
    failed_attempts_per_second: rate(['asset_update_attempt_duration_seconds_count', 'outcome="failed"']),
    tokens_per_second: rate(['asset_update_access_tokens_minted_total']),
  };
}

function total(lines: readonly string[], name: string, labels: string): number {
  return lines
    .filter((line) => (line.startsWith(`${name}{`) || line.startsWith(`${name} `)) && line.includes(labels))
    .reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' ') + 1)), 0);
}
