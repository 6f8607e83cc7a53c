import type { Client } from '@temporalio/client';
import type { Logger } from '../log.js';
import type { ClaimedEvent } from '../redis/owed/claim.js';
import { isOverLimit, isTemporalUnavailable } from '../temporal/connection.js';
import { listsOf, notificationStateKey } from '../temporal/workflowIds.js';
import { spanFor, type Tracing } from '../tracing.js';

export interface StartDeps {
  temporal: Client;
  taskQueue: string;
  /** Whether the worker of this process takes the first workflow task, which the answer to a start then brings. */
  eager: boolean;
  /** Where browsers reach the console; undefined: unknown. */
  publicUrl?: string | undefined;
  log: Logger;
  metrics: OutboxMetrics;
  /** Undefined: tracing is off. */
  tracing?: Tracing | undefined;
}

export interface OutboxMetrics {
  /** Counts a started workflow and its number of events. */
  started(events: number): void;
  /** Counts accepted events that get no workflow. */
  withoutWorkflow(events: number): void;
}

/** The input of the workflow `enrichment`. */
export interface EnrichmentInput {
  events: ClaimedEvent[];
}

export interface WorkflowStart {
  workflowId: string;
  events: ClaimedEvent[];
  /** How often its start found Temporal unavailable. */
  failures?: number;
}

/** Bounds the starts under way, so that a slow server is not asked for more and more. */
const concurrency = 32;
/** Links in the details of a group. */
const maxLinks = 10;
const retryPauseMs = { first: 250, longest: 2000 };
/** So many different workflows that fail one after the other are an outage; fewer have a fault of their own. */
const outageAfter = 3;

/** Starts workflows in their order. One that fails waits by itself, behind the others. In an outage one is tried at a time. */
export class WorkflowStarts {
  readonly #ready: WorkflowStart[] = [];
  readonly #starting = new Set<Promise<void>>();
  /** Workflows whose start found Temporal unavailable since one was last started. */
  readonly #failed = new Set<string>();
  readonly #pauses = new Set<NodeJS.Timeout>();

  /** @param onEnd called with each start that Temporal has accepted, or refused for good */
  constructor(
    readonly deps: StartDeps,
    readonly onEnd: (start: WorkflowStart) => void,
  ) {}

  /** Whether no start waits, and Temporal is available. */
  get isCaughtUp(): boolean {
    return this.#ready.length === 0 && !this.#isOutage;
  }

  get #isOutage(): boolean {
    return this.#failed.size >= outageAfter;
  }

  add(start: WorkflowStart): void {
    this.#ready.push(start);
    this.#startReady();
  }

  /** Resolves when one of the starts under way has ended. */
  async nextEnd(): Promise<void> {
    await Promise.race(this.#starting);
  }

  close(): void {
    for (const pause of this.#pauses) clearTimeout(pause);
  }

  #startReady(): void {
    while (this.#ready.length > 0 && this.#starting.size < (this.#isOutage ? 1 : concurrency)) {
      // In an outage the next one is tried when a pause is over.
      if (this.#isOutage && this.#pauses.size > 0) return;
      const started = this.#start(this.#ready.shift() as WorkflowStart);
      this.#starting.add(started);
      void started.then(() => {
        this.#starting.delete(started);
        this.#startReady();
      });
    }
  }

  async #start(start: WorkflowStart): Promise<void> {
    const { log, metrics, tracing } = this.deps;
    const { workflowId, events } = start;
    const span = tracing?.begin('StartWorkflow:enrichment', {
      kind: 'producer',
      ...spanFor(events.map(({ trace }) => trace)),
      attributes: { temporalWorkflowId: workflowId, 'asset_update.events': events.length },
    });
    try {
      await startEnrichment(this.deps, start);
      span?.end();
      this.#failed.clear();
      this.onEnd(start);
      metrics.started(events.length);
    } catch (err) {
      span?.end({}, isTemporalUnavailable(err) ? 'unavailable' : 'refused');
      if (isTemporalUnavailable(err)) {
        this.#tryAgainLater(start, err);
        return;
      }
      this.#failed.clear();
      this.onEnd(start);
      metrics.withoutWorkflow(events.length);
      log.error({ err, workflow_id: workflowId }, 'a workflow cannot be started');
    }
  }

  #tryAgainLater(start: WorkflowStart, err: unknown): void {
    const wasOutage = this.#isOutage;
    this.#failed.add(start.workflowId);
    if (this.#isOutage && !wasOutage)
      this.deps.log.warn(`${reasonOf(err)}: events are delivered, their workflows wait`);
    start.failures = (start.failures ?? 0) + 1;
    const pauseMs = Math.min(retryPauseMs.first * 2 ** (start.failures - 1), retryPauseMs.longest);
    const pause = setTimeout(() => {
      this.#pauses.delete(pause);
      this.#ready.push(start);
      this.#startReady();
    }, pauseMs);
    this.#pauses.add(pause);
  }
}

async function startEnrichment(
  { temporal, taskQueue, eager, publicUrl }: StartDeps,
  { workflowId, events }: WorkflowStart,
): Promise<void> {
  const input: EnrichmentInput = { events };
  // workflows/enrichment.ts
  await temporal.workflow.start('enrichment', {
    workflowId,
    taskQueue,
    args: [input],
    // The same id means the same input: a repeat joins the running workflow.
    workflowIdConflictPolicy: 'USE_EXISTING',
    requestEagerStart: eager,
    staticSummary: summaryOf(events),
    staticDetails: publicUrl && linksOf(events, publicUrl),
    typedSearchAttributes: [...listsOf(events).lists, { key: notificationStateKey, value: 'delivering' }],
  });
}

/** Links to the pages of the notifications in the console, in Markdown. */
function linksOf(events: ClaimedEvent[], publicUrl: string): string {
  const pages = events
    .slice(0, maxLinks)
    .map(
      ({ clientToken, notificationId }) => `/console/sites/${clientToken}/notifications/${notificationId}`,
    );
  return pages.map((page) => `<${new URL(page, publicUrl).href}>`).join('\n\n');
}

function reasonOf(err: unknown): string {
  return isOverLimit(err)
    ? 'Temporal starts no workflows: a limit of its namespace is reached (RESOURCE_EXHAUSTED)'
    : 'Temporal is away';
}

function summaryOf(events: ClaimedEvent[]): string {
  const [only] = events;
  if (events.length === 1 && only !== undefined) {
    return `asset-update of ${only.platformId.slice(0, 80)} to ${only.clientToken}`;
  }
  return `${events.length} events of ${new Set(events.map((e) => e.clientToken)).size} clients`;
}
