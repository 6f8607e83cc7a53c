import { owedOverview } from '../redis/owed/owedClients.js';
import { clientTokens } from '../redis/records/clients.js';
import { isForgotten } from './judge.js';
import { accountForClient } from './ofClient.js';
import { accountForWorkflows } from './ofWorkflows.js';
import type { Unaccounted } from './problem.js';
import { type Counts, createTally } from './tally.js';
import { type Walk, walkClient } from './walk.js';

export interface Reconciliation {
  counts: Counts;
  unaccounted: Unaccounted[];
  /** Includes those beyond the bound of `unaccounted`. */
  unaccountedInAll: number;
  looked: Walk['looked'];
  milliseconds: number;
}

/** The sweep picks up overdue assets within 2 minutes. */
const lookAgainForMs = 125_000;
const lookAgainEveryMs = 2000;

/**
 * Reads Redis and Temporal and accounts for every accepted event that either still has. Each event accepted before the
 * walk is counted once; an event accepted during the walk may be counted or not.
 * @param looked the progress of the walk, updated on the way
 */
export async function reconcile(
  options: Omit<Walk, 'tally' | 'looked'>,
  looked: Walk['looked'] = nothingYet(),
): Promise<Reconciliation> {
  const started = Date.now();
  const tally = createTally();
  const walk: Walk = { ...options, tally, looked };
  const forgotten = new Set<string>();
  for await (const page of options.clientToken === undefined
    ? clientTokens(options.db)
    : [[options.clientToken]]) {
    for (const clientToken of page) {
      await walkClient(walk, clientToken, async () => {
        if ((await accountForClient(walk, clientToken)) === 'forgotten') forgotten.add(clientToken);
      });
    }
  }
  await accountForWorkflows(walk);
  for (const clientToken of await stillForgotten(walk, forgotten))
    tally.blame({ clientToken, problem: 'overdue' });
  return {
    counts: tally.counts,
    unaccounted: tally.unaccounted(),
    unaccountedInAll: tally.unaccountedInAll(),
    looked,
    milliseconds: Date.now() - started,
  };
}

/** Returns the progress of a walk that has not begun. */
export function nothingYet(): Walk['looked'] {
  return { clients: 0, notifications: 0, workflows: 0, events: 0, histories: 0 };
}

/** Waits as long as the sweep may need: something may have just become due, for instance by a resume. */
async function stillForgotten(walk: Walk, forgotten: Set<string>): Promise<Set<string>> {
  const end = Date.now() + lookAgainForMs;
  for (;;) {
    for (const clientToken of forgotten) {
      await walkClient(walk, clientToken, async () => {
        const overview = await owedOverview(walk.db, clientToken, walk.settings.retentionMs);
        if (!isForgotten(overview)) forgotten.delete(clientToken);
      });
    }
    if (forgotten.size === 0 || Date.now() > end) return forgotten;
    await new Promise((resolve) => setTimeout(resolve, lookAgainEveryMs));
  }
}
