import { type Claim, type ClaimableEvent, claimAgain } from '../src/redis/owed/claim.js';
import type { ActivityDeps } from '../src/upkeep/deps.js';

/** An outcome as the first release's workflow reads it. */
export type FirstReleaseOutcome =
  | { kind: 'ended'; state: string; status?: number }
  | {
      kind: 'owed';
      reason: string;
      inMs: number;
      failures: number;
      claim: number;
      status?: number;
      error?: string;
      left?: true;
    }
  | { kind: 'unclaimed'; error: string };

export interface LeftToCatchUp {
  clientToken: string;
  inMs: number;
  claims?: { platformId: string; claim: number }[];
}

/** Makes the activities of workflows that the first release began: they claim its events and hand them to catch-up. */
export function firstReleaseActivities(deps: ActivityDeps) {
  const claim = (events: ClaimableEvent[]) => claimAll(deps, events);
  return {
    claimAndAttempt: claim,
    attempt: claim,
    claimAgain: claim,
    async leaveToCatchUp({ clientToken, inMs }: LeftToCatchUp): Promise<number[]> {
      await deps.durability.reached(clientToken);
      await deps.catchUps.wake(clientToken, inMs);
      return [];
    },
  };
}

async function claimAll(deps: ActivityDeps, events: ClaimableEvent[]): Promise<FirstReleaseOutcome[]> {
  return await Promise.all(events.map(async (event) => outcomeOf(await claimAgain(deps.db, event))));
}

function outcomeOf(claim: Claim): FirstReleaseOutcome {
  switch (claim.kind) {
    case 'claimed':
      return { kind: 'owed', reason: 'not_due', inMs: 0, failures: 0, claim: claim.claim };
    case 'ended':
      return { kind: 'ended', state: claim.state };
    default:
      return { kind: 'ended', state: claim.kind };
  }
}
