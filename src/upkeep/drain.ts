import type { Outcome } from '../delivery/outcome.js';
import { readTraces } from '../redis/notifications/traces.js';
import { type Plan, planCatchUp, type WaitReason } from '../redis/owed/plan.js';
import { getEndpoint } from '../redis/records/endpoint.js';
import { Bell } from './bell.js';
import type { ActivityDeps } from './deps.js';

export interface DrainResult {
  /** Waiting assets. */
  owed: number;
  /** ms since the epoch; 0 if nothing waits. */
  oldestAt: number;
  delivered: number;
  failed: number;
  reason: WaitReason;
  inMs: number;
  /** Whether more work is due now: call again immediately. */
  more: boolean;
  lastError?: string;
}

export interface DrainLimits {
  /** The drain has ended by then, with all its attempts. */
  timeoutMs: number;
  /** Aborted to begin nothing more. */
  cancelled: AbortSignal;
  /** Whether drains take most of the slots of this process. */
  isCrowded(): boolean;
}

/** A drain plans at least this often: the sweep considers a catch-up idle that has not planned for 45 s. */
const longestSleepMs = 40_000;
/** A drain with progress ends after this time, so that its workflow can report it, and begins again. */
const busyBudgetMs = 40_000;
/** While drains are crowded, a drain with more to do makes room after this time and continues behind the others. */
const crowdedBudgetMs = 20_000;
/** A drain has progress if it ends attempts at least this fast. */
const busyPerSecond = 1;
/** A drain whose time is over waits for its attempts under way: an attempt takes at most a minute. */
const lastAttemptsMs = 80_000;
/** Assets in the engine's queue beyond those under way. */
const ahead = 32;
/** Assets listed by one script. */
const maxPlanned = 256;
/** While attempts are under way, a drain plans newly due assets at most this often. */
const shortestPauseMs = 1000;

/**
 * Delivers one client's owed assets, until nothing is due or its time is over. The engine bounds it by the client's places
 * and rates: the drain sleeps until an attempt ends, or until something is due that is not under way.
 */
export class Drain {
  readonly done = { delivered: 0, failed: 0 };
  readonly #begunAt = Date.now();
  /** Notification ids. */
  readonly #underWay = new Set<string>();
  readonly #bell = new Bell();
  #ended = 0;
  /** When something will be due that is not under way, if known. */
  #dueAt = Number.POSITIVE_INFINITY;

  constructor(
    readonly deps: ActivityDeps,
    readonly clientToken: string,
    readonly limits: DrainLimits,
  ) {}

  /** Runs the drain to its end. Call it once. @throws errors of Redis */
  async run(): Promise<DrainResult> {
    const { cancelled } = this.limits;
    cancelled.addEventListener('abort', this.#bell.ring, { once: true });
    try {
      return await this.#run();
    } finally {
      cancelled.removeEventListener('abort', this.#bell.ring);
    }
  }

  async #run(): Promise<DrainResult> {
    const { maxInFlight: defaultPlaces } = this.deps.settings;
    let places = defaultPlaces;
    for (;;) {
      const limit = Math.min(places + ahead, maxPlanned);
      const hadUnderWay = this.#underWay.size > 0;
      this.#dueAt = Number.POSITIVE_INFINITY;
      const plan = await this.#plan(limit);
      // The next drain finds deliveries that the engine still holds.
      const isLast = plan.items.length > 0 ? this.#isOver() : !hadUnderWay;
      if (isLast) return await this.#resultOf(plan);
      places = plan.maxInFlight ?? defaultPlaces;
      this.#begin(plan, await this.#tracesOf(plan));
      this.#noteDue(plan.inMs);
      await this.#sleepUntilNextPlan(plan, limit);
    }
  }

  async #plan(limit: number): Promise<Plan> {
    const { db, settings, metrics } = this.deps;
    const plan = await planCatchUp(db, this.clientToken, { limit, retentionMs: settings.retentionMs });
    for (let i = 0; i < plan.expired; i++) metrics.ended('failed');
    return plan;
  }

  /** Reads the traces to which the planned attempts are linked. Returns none if tracing is off or Redis fails. */
  async #tracesOf({ items }: Plan): Promise<Map<string, string>> {
    const { db, tracing } = this.deps;
    if (tracing === undefined) return new Map();
    const ids = items.map(({ notificationId }) => notificationId);
    return await readTraces(db, this.clientToken, ids).catch(() => new Map());
  }

  #begin({ items, mode }: Plan, traces: ReadonlyMap<string, string>): void {
    const { clientToken } = this;
    for (const item of items) {
      if (this.#underWay.has(item.notificationId)) continue;
      this.#underWay.add(item.notificationId);
      const linkedTrace = traces.get(item.notificationId);
      const delivery = { clientToken, ...item, ...(linkedTrace !== undefined && { linkedTrace }) };
      void this.deps.engine.join(delivery, mode).then((outcome) => {
        this.#underWay.delete(item.notificationId);
        this.#count(outcome);
        if (outcome.state === 'waiting') this.#noteDue(outcome.inMs);
        this.#bell.ring();
      });
    }
  }

  #count(outcome: Outcome): void {
    const hasFailed =
      outcome.state === 'failed' || (outcome.state === 'waiting' && outcome.reason === 'retry');
    this.#ended++;
    if (outcome.state === 'delivered') this.done.delivered++;
    else if (hasFailed) this.done.failed++;
  }

  /** Notes that something is due in `inMs`; below 0: unknown. */
  #noteDue(inMs: number): void {
    if (inMs >= 0) this.#dueAt = Math.min(this.#dueAt, Date.now() + Math.max(inMs, shortestPauseMs));
  }

  async #sleepUntilNextPlan({ mode, items }: Plan, limit: number): Promise<void> {
    // The next probe depends on this one's answer. If more is due than was listed, a slow receiver delays none of it.
    const enough = mode === 'drain' && items.length === limit ? limit / 2 : 0;
    const wakeAt = Date.now() + longestSleepMs;
    while (this.#underWay.size > enough && Date.now() < Math.min(this.#dueAt, wakeAt)) {
      if (items.length > 0 && this.#isOver()) return;
      await this.#bell.sleepUntil(Math.min(this.#dueAt, wakeAt));
    }
  }

  #isOver(): boolean {
    const { timeoutMs, cancelled, isCrowded } = this.limits;
    const forMs = Date.now() - this.#begunAt;
    const longestMs = timeoutMs - lastAttemptsMs;
    const isBusy = this.#ended * 1000 > forMs * busyPerSecond;
    const budgetMs = isCrowded() ? crowdedBudgetMs : isBusy ? busyBudgetMs : longestMs;
    return forMs > Math.min(budgetMs, longestMs) || cancelled.aborted || this.deps.engine.isClosed;
  }

  async #resultOf(plan: Plan): Promise<DrainResult> {
    const endpoint = plan.owed > 0 ? await getEndpoint(this.deps.db, this.clientToken) : undefined;
    const lastError =
      endpoint?.lastStatus === undefined
        ? endpoint?.lastError
        : `${endpoint.lastError} ${endpoint.lastStatus}`;
    return {
      owed: plan.owed,
      oldestAt: plan.oldestAt,
      ...this.done,
      reason: plan.reason,
      inMs: plan.inMs,
      more: plan.items.length > 0,
      ...(lastError === undefined ? {} : { lastError }),
    };
  }
}
