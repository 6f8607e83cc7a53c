import { setTimeout as sleep } from 'node:timers/promises';
import type { Client } from '@temporalio/client';
import type { Logger } from '../log.js';
import type { ClaimedEvent } from '../redis/owed/claim.js';
import { refusedStarts } from '../redis/records/minutes.js';
import type { Tracing } from '../tracing.js';
import { isWorthRepeating } from './connection.js';
import { reasonOf, saysOf, toldOf } from './refusal.js';
import { showEvents } from './shown.js';

export interface StartDeps {
  temporal: Client;
  taskQueue: string;
  /** Returns true if the worker of this process takes the first workflow task, which the answer to a start then brings. */
  eager: () => boolean;
  /** The size of a search attribute that the server accepts; a list counts as one. */
  searchAttributeBytes: number;
  /** Where browsers reach the console; undefined: unknown. */
  publicUrl?: string;
  log: Logger;
  /** Counts events. */
  metrics: { started(events: number): void; withoutWorkflow(events: number): void };
  /** Counts starts that found Temporal unavailable twice, and those that it refused for good. */
  minutes: { count(cause: 'starts' | `${typeof refusedStarts}${string}`): unknown };
  tracing?: Tracing;
}

interface WorkflowStart {
  workflowId: string;
  /** By all of them the workflow is found. */
  events: readonly ClaimedEvent[];
  /** Returns the workflow's input, as it is now: what is left to deliver, and a summary of the rest. */
  input(): { events: readonly ClaimedEvent[]; before: { status?: number } };
}

/** With so many starts under way Temporal is slow: events gather in groups. */
const concurrency = 32;
const retryPauseMs = { first: 250, longest: 2000 };
/** So many different workflows whose starts fail are an outage; fewer have a fault of their own. */
const outageAfter = 3;

/**
 * This process's share of a budget of starts per second; the starts of up to one second may be saved for a burst. All
 * processes have equal shares.
 */
export class StartBudget {
  #left = Number.POSITIVE_INFINITY;
  #countedAt = performance.now();

  /** @param processes how many share it now */
  constructor(
    readonly perSecond: number,
    readonly processes: () => number,
  ) {}

  /** Takes one start. @returns false if none is left */
  take(): boolean {
    this.#count();
    if (this.#left < 1) return false;
    this.#left--;
    return true;
  }

  /** Takes one start, and gives up the starts that were saved: they would go to single events while others gather. */
  takeAll(): boolean {
    if (!this.take()) return false;
    this.#left = 0;
    return true;
  }

  /** Gives back a start that was taken and is not needed. */
  giveBack(): void {
    this.#left++;
  }

  /** Returns when the next start can be taken (ms); below 0 if it can be taken now. */
  nextInMs(): number {
    const share = this.#count();
    return ((1 - this.#left) / share) * 1000;
  }

  /** Adds the starts of the time since the last count. @returns this process's starts per second */
  #count(): number {
    const now = performance.now();
    const share = this.perSecond / this.processes();
    const earned = ((now - this.#countedAt) / 1000) * share;
    this.#left = Math.min(Math.max(1, share), this.#left + earned);
    this.#countedAt = now;
    return share;
  }
}

/** Starts workflows. Those whose start finds Temporal unavailable are tried again in turn, and delay no other. */
export class WorkflowStarts {
  #underWay = 0;
  /** Workflows under way whose last start found Temporal unavailable. */
  #failing = 0;
  #isOutage = false;
  #retries = Promise.resolve();
  #pauseMs = 0;
  #isClosed = false;

  constructor(readonly deps: StartDeps) {}

  /** Returns whether Temporal is available and keeps up. */
  get isCaughtUp(): boolean {
    return this.#underWay < concurrency && this.#failing < outageAfter;
  }

  /** Resolves once Temporal has accepted the start, or refused it for good. */
  async start(start: WorkflowStart): Promise<void> {
    this.#underWay++;
    const unavailable = await this.#try(start);
    if (unavailable !== undefined) await this.#tryAgain(start, unavailable);
    this.#underWay--;
  }

  /** Tries again, one call at a time with the other failing starts, after pauses that grow until a start succeeds. */
  async #tryAgain(start: WorkflowStart, unavailable: unknown): Promise<void> {
    this.#failing++;
    if (this.#failing === 1) this.#pauseMs = retryPauseMs.first;
    if (this.#failing === outageAfter && !this.#isOutage) {
      this.#isOutage = true;
      this.deps.log.warn(`${saysOf(unavailable).slice(0, -1)}: events are accepted, their workflows wait`);
    }
    for (let isOver = false; !isOver; ) {
      this.#retries = this.#retries.then(async () => {
        await sleep(this.#pauseMs, undefined, { ref: false });
        const isStarted = !this.#isClosed && (await this.#try(start)) === undefined;
        if (!isStarted && !this.#isClosed) this.deps.minutes.count('starts');
        const longerMs = Math.min(Math.max(2 * this.#pauseMs, retryPauseMs.first), retryPauseMs.longest);
        this.#pauseMs = isStarted ? 0 : longerMs;
        isOver = isStarted || this.#isClosed;
      });
      await this.#retries;
    }
    this.#failing--;
    if (this.#failing > 0 || !this.#isOutage || this.#isClosed) return;
    this.#isOutage = false;
    this.deps.log.info('Temporal has started all workflows that waited');
  }

  close(): void {
    this.#isClosed = true;
  }

  /** @returns the error if Temporal is unavailable */
  async #try(start: WorkflowStart): Promise<unknown> {
    const { log, metrics, minutes, tracing, temporal, taskQueue, eager } = this.deps;
    const { workflowId, events, input } = start;
    const span = tracing?.begin('StartWorkflow:enrichment', {
      kind: 'PRODUCER',
      traces: events.map(({ trace }) => trace),
      attributes: { temporalWorkflowId: workflowId, 'asset_update.events': events.length },
    });
    try {
      const { events: left, before } = input();
      // workflows/enrichment.ts
      await temporal.workflow.start('enrichment', {
        workflowId,
        taskQueue,
        args: [{ events: left, before }],
        // The same id means the same input: a repeat joins the running workflow.
        workflowIdConflictPolicy: 'USE_EXISTING',
        requestEagerStart: eager(),
        ...showEvents({ events, left: left.length, status: before.status }, this.deps),
      });
      span?.end();
      metrics.started(events.length);
    } catch (err) {
      const isUnavailable = isWorthRepeating(err);
      span?.end({}, isUnavailable ? 'unavailable' : 'refused');
      if (isUnavailable) return err;
      metrics.withoutWorkflow(events.length);
      minutes.count(`${refusedStarts}${reasonOf(err) ?? 'bug'}`);
      log.error({ ...toldOf(err), workflow_id: workflowId }, 'a workflow cannot be started');
    }
    return undefined;
  }
}
