/**
 * Enrichment workflows that the first release began, so that they go on: they were started before their events were
 * claimed, and retried by themselves. docs/upgrading.md says when this file may go.
 */
import {
  CancellationScope,
  isCancellation,
  proxyActivities,
  proxyLocalActivities,
  setCurrentDetails,
  sleep,
  upsertSearchAttributes,
  workflowInfo,
} from '@temporalio/workflow';
import type { FirstReleaseOutcome, LeftToCatchUp } from '../activities/firstRelease.js';
import type { ClaimableEvent } from '../src/redis/owed/claim.js';
import type { FirstReleaseInput } from '../src/temporal/enrichmentInput.js';
import { httpStatusKey, listsOf, notificationStateKey } from '../src/temporal/searchAttributeKeys.js';
import { upkeepQueueOf } from '../src/temporal/upkeepQueue.js';

type OwedOutcome = Extract<FirstReleaseOutcome, { kind: 'owed' }>;

interface FirstReleaseActivities {
  claimAndAttempt(events: ClaimableEvent[]): Promise<FirstReleaseOutcome[]>;
  attempt(events: (ClaimableEvent & { claim: number })[]): Promise<FirstReleaseOutcome[]>;
  claimAgain(events: ClaimableEvent[]): Promise<FirstReleaseOutcome[]>;
  leaveToCatchUp(left: LeftToCatchUp): Promise<number[] | undefined>;
}

export function isOfFirstRelease(input: { events: object[] }): input is FirstReleaseInput {
  return input.events.some((event) => 'lookedUpClaim' in event);
}

const { claimAndAttempt } = proxyLocalActivities<FirstReleaseActivities>({
  startToCloseTimeout: '30s',
  summary: 'claim, then the first attempt',
  retry: { initialInterval: '200ms', backoffCoefficient: 2, maximumInterval: '10s' },
});

const { attempt } = proxyActivities<FirstReleaseActivities>({
  startToCloseTimeout: '90s',
  summary: 'attempt',
  retry: { initialInterval: '500ms', backoffCoefficient: 2, maximumInterval: '10s' },
});

const upkeep = () =>
  proxyActivities<FirstReleaseActivities>({
    taskQueue: upkeepQueueOf(workflowInfo().taskQueue),
    startToCloseTimeout: '90s',
    summary: 'keep what is accepted owed',
    retry: { initialInterval: '500ms', backoffCoefficient: 2, maximumInterval: '10s' },
  });

export async function enrichmentOfFirstRelease({ events }: FirstReleaseInput): Promise<void> {
  setCurrentDetails('Waiting for its claim.');
  const outcomes = await CancellationScope.nonCancellable(() => claimAndAttempt(events));
  describe(events, outcomes);

  const unfinished = [...outcomes.keys()].filter((i) => !isFinished(outcomes[i] as FirstReleaseOutcome));
  const byClient = indexesByClient(events, unfinished);
  if (byClient.size > 0) {
    // One client's events never wait for another's.
    await Promise.all([...byClient.values()].map((indexes) => finish(events, outcomes, indexes)));
    describe(events, outcomes);
  }
}

async function finish(
  events: ClaimableEvent[],
  outcomes: FirstReleaseOutcome[],
  indexes: number[],
): Promise<void> {
  const unclaimed = indexes.filter((i) => outcomes[i]?.kind === 'unclaimed');
  if (unclaimed.length > 0) {
    const claimed = await CancellationScope.nonCancellable(() =>
      upkeep().claimAgain(pick(events, unclaimed)),
    );
    unclaimed.forEach((i, n) => {
      outcomes[i] = claimed[n] as FirstReleaseOutcome;
    });
  }
  try {
    await retryShortly(events, outcomes, indexes);
  } catch (err) {
    if (!isCancellation(err)) throw err;
  }
  await CancellationScope.nonCancellable(() => leave(events, outcomes, indexes));
}

/** Hands the remaining events over to catch-up, once they are on Redis' disk; claims again those that Redis lost before. */
async function leave(
  events: ClaimableEvent[],
  outcomes: FirstReleaseOutcome[],
  indexes: number[],
): Promise<void> {
  for (let left = stillOwed(outcomes, indexes); left.length > 0; ) {
    const lost = await upkeep().leaveToCatchUp(leftOf(events, outcomes, left));
    // A worker of an earlier release returns nothing.
    const again = (lost ?? []).map((n) => left[n] as number);
    if (again.length === 0) return;
    const claimed = await upkeep().claimAgain(pick(events, again));
    again.forEach((i, n) => {
      outcomes[i] = claimed[n] as FirstReleaseOutcome;
    });
    left = stillOwed(outcomes, again);
  }
}

async function retryShortly(
  events: ClaimableEvent[],
  outcomes: FirstReleaseOutcome[],
  indexes: number[],
): Promise<void> {
  // A first attempt that is still under way counts as no retry.
  for (let round = 0; round < shortRetries + 1; round++) {
    const due = stillOwed(outcomes, indexes).filter((i) => isShort(outcomes[i] as OwedOutcome));
    if (due.length === 0) return;
    const inMs = Math.min(...due.map((i) => (outcomes[i] as OwedOutcome).inMs));
    describe(events, outcomes);
    await sleep(Math.max(inMs, 1));
    const again = await attempt(
      due.map((i) => ({ ...(events[i] as ClaimableEvent), claim: (outcomes[i] as OwedOutcome).claim })),
    );
    due.forEach((i, n) => {
      outcomes[i] = again[n] as FirstReleaseOutcome;
    });
  }
}

function stillOwed(outcomes: FirstReleaseOutcome[], indexes: number[]): number[] {
  return indexes.filter((i) => outcomes[i]?.kind === 'owed');
}

function pick<T>(from: T[], indexes: number[]): T[] {
  return indexes.map((i) => from[i] as T);
}

/** Shows the state, the last HTTP status and a description in words. */
function describe(events: ClaimableEvent[], outcomes: FirstReleaseOutcome[]): void {
  const states = new Set(outcomes.map(stateOf));
  const [only] = states;
  const state = states.size === 1 && only !== undefined ? only : 'mixed';
  const status = outcomes.find((o) => o.kind !== 'unclaimed' && o.status !== undefined);
  const waiting = events.filter((_, i) => outcomes[i]?.kind !== 'ended');
  upsertSearchAttributes([
    // Where not all fit, the events that still wait are listed.
    ...(waiting.length > 0 && listsOf(events).cut ? listsOf(waiting).lists : []),
    { key: notificationStateKey, value: state },
    ...(status !== undefined && status.kind !== 'unclaimed' && status.status !== undefined
      ? [{ key: httpStatusKey, value: status.status }]
      : []),
  ]);
  setCurrentDetails(events.length === 1 ? wordsOf(outcomes[0] as FirstReleaseOutcome) : countsOf(outcomes));
}

function stateOf(outcome: FirstReleaseOutcome): string {
  switch (outcome.kind) {
    case 'ended':
      return outcome.state;
    case 'owed':
      return 'waiting';
    case 'unclaimed':
      return 'claiming';
  }
}

function wordsOf(outcome: FirstReleaseOutcome): string {
  switch (outcome.kind) {
    case 'ended':
      return `Ended: ${outcome.state}${outcome.status === undefined ? '' : `, HTTP ${outcome.status}`}.`;
    case 'owed': {
      const why =
        outcome.error === undefined
          ? outcome.reason
          : `${outcome.error}${outcome.status ? ` ${outcome.status}` : ''}`;
      const next = outcome.inMs >= 0 ? `, next attempt in ${Math.ceil(outcome.inMs / 1000)} s` : '';
      return `Owed after ${outcome.failures} failed attempts (${why})${next}. Beyond ${shortRetries} retries catch-up goes on.`;
    }
    case 'unclaimed':
      return `Its claim failed and is tried again: ${outcome.error}.`;
  }
}

function countsOf(outcomes: FirstReleaseOutcome[]): string {
  const counts = new Map<string, number>();
  for (const outcome of outcomes) counts.set(stateOf(outcome), (counts.get(stateOf(outcome)) ?? 0) + 1);
  return `${outcomes.length} events: ${[...counts].map(([state, n]) => `${n} ${state}`).join(', ')}.`;
}

/** A workflow makes so many retries; catch-up makes the later ones. */
const shortRetries = 3;

/** Whether nothing is left for a workflow to do. */
function isFinished(outcome: FirstReleaseOutcome): boolean {
  return outcome.kind === 'ended' || (outcome.kind === 'owed' && outcome.left === true);
}

/** Whether the workflow attempts it again, or waits for an attempt that is under way. */
function isShort(outcome: OwedOutcome): boolean {
  return outcome.reason === 'under_way' || (outcome.reason === 'retry' && outcome.failures <= shortRetries);
}

/** Groups indexes of events by client, in the order of each client's first event. */
function indexesByClient(
  events: readonly ClaimableEvent[],
  indexes: Iterable<number> = events.keys(),
): Map<string, number[]> {
  const byClient = new Map<string, number[]>();
  for (const i of indexes) {
    const { clientToken } = events[i] as ClaimableEvent;
    const ofClient = byClient.get(clientToken);
    if (ofClient === undefined) byClient.set(clientToken, [i]);
    else ofClient.push(i);
  }
  return byClient;
}

/** Makes the input of `leaveToCatchUp`. @param indexes of events of one client, all owed, at least one */
function leftOf(
  events: readonly ClaimableEvent[],
  outcomes: readonly FirstReleaseOutcome[],
  indexes: readonly number[],
): LeftToCatchUp {
  const owed = indexes.map((i) => outcomes[i] as OwedOutcome);
  return {
    clientToken: (events[indexes[0] as number] as ClaimableEvent).clientToken,
    inMs: Math.min(...owed.map(({ inMs }) => inMs)),
    claims: indexes.map((i, n) => ({
      platformId: (events[i] as ClaimableEvent).platformId,
      claim: (owed[n] as OwedOutcome).claim,
    })),
  };
}
