/** What an enrichment workflow goes on with by itself, and what it leaves to catch-up. */
import type { LeftToCatchUp } from '../activities/leaveToCatchUp.js';
import type { ArrivedEvent, EventOutcome, OwedOutcome } from '../activities/outcome.js';

/** Retries that a workflow itself makes; what is still owed after them is catch-up's. */
export const shortRetries = 3;

/** Whether nothing is left for a workflow to do. */
export function isFinished(outcome: EventOutcome): boolean {
  return outcome.kind === 'ended' || (outcome.kind === 'owed' && outcome.left === true);
}

/** Whether the workflow tries it again, or waits for its attempt that is under way. */
export function isShort(outcome: OwedOutcome): boolean {
  return outcome.reason === 'under_way' || (outcome.reason === 'retry' && outcome.failures <= shortRetries);
}

/** The given ones of the events' indexes, by client, each in the order of the first of it. */
export function indexesByClient(
  events: readonly ArrivedEvent[],
  indexes: Iterable<number> = events.keys(),
): Map<string, number[]> {
  const byClient = new Map<string, number[]>();
  for (const i of indexes) {
    const { clientToken } = events[i] as ArrivedEvent;
    const ofClient = byClient.get(clientToken);
    if (ofClient === undefined) byClient.set(clientToken, [i]);
    else ofClient.push(i);
  }
  return byClient;
}

/** @param indexes of events of one client, all owed, at least one */
export function leftOf(
  events: readonly ArrivedEvent[],
  outcomes: readonly EventOutcome[],
  indexes: readonly number[],
): LeftToCatchUp {
  const owed = indexes.map((i) => outcomes[i] as OwedOutcome);
  return {
    clientToken: (events[indexes[0] as number] as ArrivedEvent).clientToken,
    inMs: Math.min(...owed.map(({ inMs }) => inMs)),
    claims: indexes.map((i, n) => ({
      platformId: (events[i] as ArrivedEvent).platformId,
      claim: (owed[n] as OwedOutcome).claim,
    })),
  };
}
