import type { Outcome } from '../src/delivery/outcome.js';
import type { ActivityDeps } from '../src/upkeep/deps.js';

export interface Redelivery {
  clientToken: string;
  platformId: string;
  notificationId: string;
}

export type RedeliveryOutcome =
  | { kind: 'ended'; state: string; status?: number }
  | { kind: 'owed'; reason: string; inMs: number; status?: number; error?: string };

/** Sends an ended notification again, under its own id, even if a newer one exists. */
export async function attemptRedelivery(
  { engine }: ActivityDeps,
  item: Redelivery,
): Promise<RedeliveryOutcome> {
  return redeliveryOutcomeOf(await engine.join({ ...item, priority: 'live' }, 'redeliver'));
}

function redeliveryOutcomeOf(outcome: Outcome): RedeliveryOutcome {
  const status = outcome.status === undefined ? {} : { status: outcome.status };
  if (outcome.state !== 'waiting') return { kind: 'ended', state: outcome.state, ...status };
  const { reason, inMs, error } = outcome;
  return { kind: 'owed', reason, inMs, ...status, ...(error === undefined ? {} : { error }) };
}
