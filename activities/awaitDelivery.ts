import { setTimeout as sleep } from 'node:timers/promises';
import { ApplicationFailure, Context } from '@temporalio/activity';
import { isRetriedShortly, type Outcome, type Waiting } from '../src/delivery/outcome.js';
import { type Report, reportOf } from '../src/delivery/report.js';
import { deliveryOf } from '../src/delivery/work.js';
import type { ClaimedEvent } from '../src/redis/owed/claim.js';
import type { ActivityDeps } from '../src/upkeep/deps.js';

/** What is due within this time is waited for here; the rest is Temporal's to time. */
const soonMs = 1000;
const heartbeatMs = 3000;

/**
 * Sees events through that their first moment has not finished: waits for what is under way, attempts what is due. Fails
 * once all that is left waits for a later retry, so that Temporal shows the last failure and times the next attempt.
 * What is owed after the short retries, or may not be sent now, is handed to catch-up.
 *
 * @param known what has become of each so far
 * @throws ApplicationFailure its type is the contract's error class, or why it waits
 */
export async function awaitDelivery(
  deps: ActivityDeps,
  events: ClaimedEvent[],
  known: Waiting[] = [],
): Promise<Report> {
  const context = Context.current();
  const heartbeat = setInterval(() => context.heartbeat(), heartbeatMs);
  try {
    const first = context.info.attempt === 1 ? known : [];
    const outcomes = await seeThrough(deps, events, first, context.cancellationSignal);
    const later = outcomes.filter(isRetriedShortly);
    if (later.length > 0) throw failureOf(events, outcomes, later);
    await handOverRest(deps, events, outcomes);
    return reportOf(outcomes);
  } finally {
    clearInterval(heartbeat);
  }
}

/** Each event is attempted when it is due, for as long as any of them is under way or due soon. */
async function seeThrough(
  { engine }: ActivityDeps,
  events: ClaimedEvent[],
  known: Waiting[],
  cancelled: AbortSignal,
): Promise<Outcome[]> {
  let active = events.length;
  let end: () => void = () => undefined;
  const allRest = new Promise<void>((resolve) => {
    end = resolve;
  });
  const rest = () => {
    if (--active === 0) end();
  };
  cancelled.addEventListener('abort', () => end(), { once: true });

  async function ask(event: ClaimedEvent): Promise<Outcome> {
    const outcome = await engine.join(deliveryOf(event), 'retry');
    engine.forget([event.notificationId]);
    return outcome;
  }

  /** Whether all came to rest before that time was over. */
  async function allRestBefore(ms: number): Promise<boolean> {
    let timer: NodeJS.Timeout | undefined;
    const due = new Promise<false>((resolve) => {
      timer = setTimeout(resolve, ms, false);
    });
    const rested = await Promise.race([allRest.then(() => true), due]);
    clearTimeout(timer);
    return rested;
  }

  async function see(event: ClaimedEvent, before: Waiting | undefined): Promise<Outcome> {
    for (let last = before; ; last = undefined) {
      const outcome = last === undefined || last.reason === 'under_way' ? await ask(event) : last;
      if (!isRetriedShortly(outcome)) {
        rest();
        return outcome;
      }
      if (outcome.inMs <= soonMs) {
        await sleep(Math.max(outcome.inMs, 20));
        if (!cancelled.aborted) continue;
        return outcome;
      }
      rest();
      if (await allRestBefore(outcome.inMs)) return outcome;
      active++;
    }
  }
  return await Promise.all(events.map((event, i) => see(event, known[i])));
}

async function handOverRest(
  { catchUps }: ActivityDeps,
  events: ClaimedEvent[],
  outcomes: Outcome[],
): Promise<void> {
  const soonest = new Map<string, number>();
  outcomes.forEach((outcome, i) => {
    // A client that may not be sent anything is catch-up's already.
    if (outcome.state !== 'waiting' || !['retry', 'not_due'].includes(outcome.reason)) return;
    const { clientToken } = events[i] as ClaimedEvent;
    soonest.set(clientToken, Math.min(soonest.get(clientToken) ?? outcome.inMs, outcome.inMs));
  });
  await Promise.all([...soonest].map(([clientToken, inMs]) => catchUps.wake(clientToken, inMs)));
}

function failureOf(events: ClaimedEvent[], outcomes: Outcome[], later: Waiting[]): ApplicationFailure {
  const first = later.reduce((a, b) => (b.inMs < a.inMs ? b : a));
  const event = events[outcomes.indexOf(first)] as ClaimedEvent;
  const others = later.length > 1 ? `; ${later.length - 1} more of ${events.length} wait` : '';
  const failure = ApplicationFailure.create({
    type: first.error ?? first.reason,
    message: `${wordsOf(first)} (${event.platformId} to ${event.clientToken})${others}`,
    nextRetryDelay: Math.max(first.inMs, 1),
  });
  // It says what a receiver did: where in this code that was noticed helps nobody.
  failure.stack = '';
  return failure;
}

function wordsOf({ reason, error, status, target, failures }: Waiting): string {
  if (reason !== 'retry') return `waits: ${reason}`;
  return `attempt ${failures} of ${target ?? 'it'} failed: ${error ?? 'failed'}${status === undefined ? '' : ` ${status}`}`;
}
