import type { Unaccounted } from './problem.js';

/** Counts of accepted events by their result. */
export interface Counts {
  delivered: number;
  superseded: number;
  not_needed: number;
  failed: number;
  cancelled: number;
  owed: number;
  /** Accepted and not claimed yet: its workflow runs, or the sweep is about to claim it. */
  in_progress: number;
  /** The record was removed by the documented limits: 14 days after its end, 10,000 per client. */
  aged_out: number;
}

/** Sums up a walk. An event found in both Redis and Temporal is one finding. */
export interface Tally {
  counts: Counts;
  count(as: keyof Counts): void;
  blame(found: Unaccounted): void;
  /** Returns the findings, at most 10,000. */
  unaccounted(): Unaccounted[];
  /** Returns how many findings there are, with those left out. */
  unaccountedInAll(): number;
}

const maxListed = 10_000;

export function createTally(): Tally {
  const counts: Counts = {
    delivered: 0,
    superseded: 0,
    not_needed: 0,
    failed: 0,
    cancelled: 0,
    owed: 0,
    in_progress: 0,
    aged_out: 0,
  };
  const findings = new Map<string, Unaccounted>();
  let beyond = 0;
  return {
    counts,
    count: (as) => {
      counts[as]++;
    },
    blame(found) {
      const key = `${found.clientToken} ${found.notificationId ?? found.platformId ?? found.problem}`;
      const before = findings.get(key);
      // The first finding is nearest to the cause; a later one may have more of the ids.
      if (before !== undefined) findings.set(key, { ...found, ...before });
      else if (findings.size < maxListed) findings.set(key, found);
      else beyond++;
    },
    unaccounted: () => [...findings.values()],
    unaccountedInAll: () => findings.size + beyond,
  };
}
