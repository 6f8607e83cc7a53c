import { Context } from '@temporalio/activity';
import { getClient } from '../src/store/clients.js';
import { getEndpoint } from '../src/store/endpoint.js';
import { type Plan, planCatchUp } from '../src/store/plan.js';
import { makeAttempt } from './attempt.js';
import type { ActivityDeps } from './deps.js';
import type { DrainResult } from './outcome.js';

/** A drain ends before it runs long: its workflow then comes back at once. */
const budgetMs = 20_000;
const planned = 64;
/** However many a client may have in flight, one drain's part of it. */
const mostHands = 256;

/**
 * Works through what a client is owed, until nothing is due or its time is over. Bounded by the client's places and
 * rates (take decides); heartbeats. A cancelled drain ends between two attempts.
 */
export async function drain(deps: ActivityDeps, clientToken: string): Promise<DrainResult> {
  const context = Context.current();
  const end = Date.now() + budgetMs;
  const done = { delivered: 0, failed: 0 };
  const heartbeat = setInterval(() => context.heartbeat(done), 3000);
  try {
    for (;;) {
      const plan = await planNext(deps, clientToken);
      const over = Date.now() > end || context.cancellationSignal.aborted;
      if (plan.items.length === 0 || over) return await resultOf(deps, clientToken, plan, done);
      await workThrough(deps, clientToken, plan, done, end, context.cancellationSignal);
    }
  } finally {
    clearInterval(heartbeat);
  }
}

async function planNext(deps: ActivityDeps, clientToken: string): Promise<Plan> {
  const plan = await planCatchUp(deps.db, clientToken, {
    limit: planned,
    retentionMs: deps.delivery.retentionMs,
  });
  for (let i = 0; i < plan.expired; i++) deps.metrics.ended('failed');
  return plan;
}

/**
 * Attempts what is planned by as many hands as the client may have, and plans again while some of them are still
 * waiting for an answer: a slow one holds up no other. A hand that finds no place puts its item back and waits.
 */
async function workThrough(
  deps: ActivityDeps,
  clientToken: string,
  plan: Plan,
  done: { delivered: number; failed: number },
  end: number,
  cancelled: AbortSignal,
): Promise<void> {
  const items = [...plan.items];
  let stopped = false;
  let planning: Promise<void> | undefined;
  const planMore = async (): Promise<void> => {
    const more = await planNext(deps, clientToken);
    if (more.mode === plan.mode) items.push(...more.items);
    if (items.length === 0) stopped = true;
  };
  const hand = async (): Promise<void> => {
    while (!stopped && !cancelled.aborted && Date.now() < end) {
      const item = items.shift();
      if (item === undefined) {
        // One probe at a time: what comes after it depends on its answer.
        if (plan.mode === 'probe') return;
        planning ??= planMore().finally(() => {
          planning = undefined;
        });
        await planning;
        continue;
      }
      const outcome = await makeAttempt(deps, { clientToken, ...item }, plan.mode);
      if (outcome.kind === 'delivered') done.delivered++;
      else if (outcome.kind === 'retry' || outcome.kind === 'failed') done.failed++;
      if (outcome.kind !== 'refused' || outcome.reason === 'leased' || outcome.reason === 'not_due') continue;
      if (outcome.reason !== 'rate' && outcome.reason !== 'full') {
        // Paused, failing or gone in the meantime: the next plan says what to do.
        stopped = true;
        return;
      }
      items.unshift(item);
      const longestMs = outcome.reason === 'full' ? 100 : 1000;
      await new Promise((resolve) => setTimeout(resolve, Math.min(Math.max(outcome.inMs, 5), longestMs)));
    }
  };
  const own = (await getClient(deps.db, clientToken))?.maxInFlight;
  const hands = Math.min(own ?? deps.delivery.maxInFlight, mostHands);
  const results = await Promise.allSettled(Array.from({ length: hands }, hand));
  const broken = results.find((r) => r.status === 'rejected');
  if (broken?.status === 'rejected') throw broken.reason;
}

async function resultOf(
  deps: ActivityDeps,
  clientToken: string,
  plan: Plan,
  done: { delivered: number; failed: number },
): Promise<DrainResult> {
  const endpoint = plan.owed > 0 ? await getEndpoint(deps.db, clientToken) : undefined;
  const lastError =
    endpoint?.lastStatus === undefined ? endpoint?.lastError : `${endpoint.lastError} ${endpoint.lastStatus}`;
  return {
    owed: plan.owed,
    oldestAt: plan.oldestAt,
    ...done,
    reason: plan.reason,
    inMs: plan.inMs,
    more: plan.items.length > 0,
    ...(lastError === undefined ? {} : { lastError }),
  };
}
