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

/** It looks at least as often: the sweep takes a catch-up for idle that has not looked for 45 s. */
const lookMs = 40_000;
/** A drain that gets on ends after this time, for its workflow to say how far it is, and begins anew. */
const reportMs = 40_000;
/** While drains are crowded one with more to do makes room after this time, and goes on behind the others. */
const crowdedMs = 20_000;
/** As fast as this it gets on. */
const endedPerSecond = 1;
/** What is under way when its time is over is waited for: an attempt takes a minute at most. */
const lastAttemptsMs = 80_000;
/** What waits in the engine's queue beside what is under way. */
const ahead = 32;
/** Listed by one script. */
const plannedAtMost = 256;
/** While something is under way it looks for what has become due once in this time. */
const pauseMs = 1000;
const heartbeatMs = 3000;

/**
 * Works through what a client is owed, until nothing is due or its time is over. The engine bounds it by the client's
 * places and rates: until it lets go of something, or something is due that is not in its hands, the drain sleeps. A
 * cancelled drain begins nothing more.
 * @param isCrowded whether drains take most of the slots of this process
 */
export async function drain(
  deps: ActivityDeps,
  clientToken: string,
  isCrowded: () => boolean = () => false,
): Promise<DrainResult> {
  const context = Context.current();
  const begunAt = Date.now();
  const quietMs = context.info.startToCloseTimeoutMs - lastAttemptsMs;
  const done = { delivered: 0, failed: 0 };
  const heartbeat = setInterval(() => context.heartbeat(done), heartbeatMs);
  let ended = 0;
  const isOver = () => {
    const forMs = Date.now() - begunAt;
    const getsOn = ended * 1000 > forMs * endedPerSecond;
    const budgetMs = isCrowded() ? crowdedMs : getsOn ? reportMs : quietMs;
    return forMs > Math.min(budgetMs, quietMs) || context.cancellationSignal.aborted;
  };
  const underWay = new Set<string>();
  const bell = newBell();
  context.cancellationSignal.addEventListener('abort', bell.ring, { once: true });
  /** When something will be due that is not under way, as far as is known. */
  let dueAt = Number.POSITIVE_INFINITY;
  const dueIn = (inMs: number) => {
    if (inMs >= 0) dueAt = Math.min(dueAt, Date.now() + Math.max(inMs, pauseMs));
  };
  const begin = (plan: Plan) => {
    for (const item of plan.items) {
      if (underWay.has(item.notificationId)) continue;
      underWay.add(item.notificationId);
      void deps.engine.join({ clientToken, ...item }, plan.mode).then((outcome) => {
        underWay.delete(item.notificationId);
        ended++;
        count(outcome, done);
        if (outcome.state === 'waiting') dueIn(outcome.inMs);
        bell.ring();
      });
    }
  };
  let places = deps.delivery.maxInFlight;
  try {
    for (;;) {
      const limit = Math.min(places + ahead, plannedAtMost);
      const before = underWay.size;
      dueAt = Number.POSITIVE_INFINITY;
      const plan = await planNext(deps, clientToken, limit);
      // What the engine still holds of it the next drain finds there.
      const isLast = plan.items.length > 0 ? isOver() : before === 0;
      if (isLast) return await resultOf(deps, clientToken, plan, done);
      places = plan.maxInFlight ?? deps.delivery.maxInFlight;
      begin(plan);
      dueIn(plan.inMs);
      // The next probe depends on the answer of this one. Where more is due than was listed, a slow receiver holds up none.
      const enough = plan.mode === 'drain' && plan.items.length === limit ? limit / 2 : 0;
      const lookAt = Date.now() + lookMs;
      while (underWay.size > enough && Date.now() < Math.min(dueAt, lookAt)) {
        if (plan.items.length > 0 && isOver()) break;
        await bell.rung(Math.min(dueAt, lookAt));
      }
    }
  } finally {
    clearInterval(heartbeat);
    context.cancellationSignal.removeEventListener('abort', bell.ring);
  }
}

interface Bell {
  ring(): void;
  /** Resolves when it rings next, and at that time (ms) at the latest. */
  rung(at: number): Promise<void>;
}

function newBell(): Bell {
  let ring = () => {};
  return {
    ring: () => ring(),
    rung: (at) =>
      new Promise((resolve) => {
        const timer = setTimeout(resolve, Math.max(0, at - Date.now()));
        ring = () => {
          clearTimeout(timer);
          resolve();
        };
      }),
  };
}

async function planNext(deps: ActivityDeps, clientToken: string, limit: number): Promise<Plan> {
  const { retentionMs } = deps.delivery;
  const plan = await planCatchUp(deps.db, clientToken, { limit, retentionMs });
  for (let i = 0; i < plan.expired; i++) deps.metrics.ended('failed');
  return plan;
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
