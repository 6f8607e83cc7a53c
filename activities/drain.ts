import { Context } from '@temporalio/activity';
import type { Outcome } from '../src/delivery/outcome.js';
import { type Plan, planCatchUp, type WaitReason } from '../src/redis/owed/plan.js';
import { getEndpoint } from '../src/redis/records/endpoint.js';
import type { ActivityDeps } from '../src/upkeep/deps.js';

export interface DrainResult {
  /** Assets that wait. */
  owed: number;
  /** ms since the epoch; 0 when nothing waits. */
  oldestAt: number;
  delivered: number;
  failed: number;
  reason: WaitReason;
  inMs: number;
  /** There is work that is due now: come back at once. */
  more: boolean;
  lastError?: string;
}

/**
 * A drain with more to do leaves its slot to others after this time, and its workflow comes back behind them. What the
 * engine still holds of it is found there.
 */
const budgetMs = 20_000;
/** So many are in the engine's queue at a time. */
const plannedAtOnce = 256;
const heartbeatMs = 3000;

/**
 * Works through what a client is owed, until nothing is due or its time is over. The engine bounds it by the client's
 * places and rates. A cancelled drain begins nothing more.
 */
export async function drain(deps: ActivityDeps, clientToken: string): Promise<DrainResult> {
  const context = Context.current();
  const end = Date.now() + budgetMs;
  const done = { delivered: 0, failed: 0 };
  const heartbeat = setInterval(() => context.heartbeat(done), heartbeatMs);
  const isOver = () => Date.now() >= end || context.cancellationSignal.aborted;
  const underWay = new Map<string, Promise<void>>();
  let ending: NodeJS.Timeout | undefined;
  const over = new Promise<void>((resolve) => {
    ending = setTimeout(resolve, budgetMs);
    context.cancellationSignal.addEventListener('abort', () => resolve(), { once: true });
  });
  const someEnded = () => Promise.race([over, ...underWay.values()]);
  try {
    for (;;) {
      const plan = await planNext(deps, clientToken);
      if (isOver() || (underWay.size === 0 && plan.items.length === 0)) {
        return await resultOf(deps, clientToken, plan, done);
      }
      beginAll(deps, clientToken, plan, underWay, done);
      // The next probe depends on the answer of this one; else a slow receiver holds up none of the others.
      const enough = plan.mode === 'probe' ? 0 : plannedAtOnce / 2;
      while (underWay.size > enough && !isOver()) await someEnded();
      if (underWay.size > 0 && plan.items.every(({ notificationId }) => underWay.has(notificationId))) {
        await someEnded();
      }
    }
  } finally {
    clearInterval(heartbeat);
    clearTimeout(ending);
  }
}

async function planNext(deps: ActivityDeps, clientToken: string): Promise<Plan> {
  const { retentionMs } = deps.delivery;
  const plan = await planCatchUp(deps.db, clientToken, { limit: plannedAtOnce, retentionMs });
  for (let i = 0; i < plan.expired; i++) deps.metrics.ended('failed');
  return plan;
}

function beginAll(
  { engine }: ActivityDeps,
  clientToken: string,
  plan: Plan,
  underWay: Map<string, Promise<void>>,
  done: { delivered: number; failed: number },
): void {
  for (const item of plan.items) {
    if (underWay.has(item.notificationId)) continue;
    const ended = engine.join({ clientToken, ...item }, plan.mode).then((outcome) => {
      underWay.delete(item.notificationId);
      count(outcome, done);
    });
    underWay.set(item.notificationId, ended);
  }
}

function count(outcome: Outcome, done: { delivered: number; failed: number }): void {
  if (outcome.state === 'delivered') done.delivered++;
  else if (outcome.state === 'failed' || (outcome.state === 'waiting' && outcome.reason === 'retry'))
    done.failed++;
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
