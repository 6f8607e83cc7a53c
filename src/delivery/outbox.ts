/**
 * Every accepted event gets a workflow, within a budget of starts: an event that finds a place in it has a workflow of
 * its own, what arrives in between shares the next. Nothing waits for a start but the workflow: while Temporal is away
 * the outbox fills up to a bound, and what arrives beyond it has none.
 */
import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Client } from '@temporalio/client';
import type { Logger } from '../log.js';
import type { ArrivedEvent, ClaimedEvent } from '../redis/owed/claim.js';
import type { EnrichmentInput } from '../temporal/enrichmentInput.js';
import { listsOf, notificationStateKey } from '../temporal/searchAttributeKeys.js';
import { isOverLimit, isTemporalUnavailable } from '../temporal/unavailable.js';
import { workflowIds } from '../temporal/workflowIds.js';

export interface OutboxOptions {
  temporal: Client;
  taskQueue: string;
  /** Starts per second; as many may be saved up for a burst. */
  workflowsPerSecond: number;
  /** The worker shares this process: its first workflow task comes back with the start. */
  eager: boolean;
  /** Events that wait for their workflow, at most (20,000). */
  waitingAtMost?: number;
  log: Logger;
  metrics: OutboxMetrics;
}

export interface OutboxMetrics {
  /** A workflow was started with so many events. */
  started(events: number): void;
  /** So many events were accepted that have none. */
  withoutWorkflow(events: number): void;
}

/** A place in a workflow, to be filled or left. */
export interface Ticket {
  /** What the claim writes into the notification's record; undefined where the workflow is its own. */
  group: string | undefined;
  fill(event: ClaimedEvent): void;
  /** Nothing was claimed. */
  leave(): void;
}

export interface Outbox {
  /** The workflow that this event will be in, or waits for already; undefined where more events wait than the outbox holds. */
  reserve(event: ArrivedEvent): Ticket | undefined;
  /** Events that wait for their workflow. */
  waiting(): number;
  /** Starts what waits, for a moment; of what is left the sweep finds what is owed. */
  close(): Promise<void>;
}

const groupAtMost = 500;
/** Temporal takes 2 MB per payload. */
const groupBytes = 512 * 1024;
/** A server that is slow must not be asked for ever more. */
const startsAtOnce = 32;
const pauseMs = { first: 250, longest: 2000 };
const closeWithinMs = 3000;

/** A workflow to be started. */
interface Start {
  workflowId: string;
  group: string | undefined;
  events: ClaimedEvent[];
  bytes: number;
  reserved: number;
  /** Reserved places that are neither filled nor left yet. */
  open: number;
  /** It takes nothing more. */
  isClosed: boolean;
}

export function createOutbox(options: OutboxOptions): Outbox {
  const { workflowsPerSecond: perSecond, waitingAtMost = 20_000 } = options;
  const ids = workflowIds(options.taskQueue);
  const burst = Math.max(1, perSecond);
  let places = burst;
  let countedAt = performance.now();
  /** They wait for a place, in their order; what arrives goes into the last. */
  const groups: Start[] = [];
  /** They have a place and wait for their start, while Temporal is slow or away. */
  const ready: Start[] = [];
  const starting = new Set<Promise<void>>();
  /** Where each event waits: given again, it takes no second place. */
  const startOf = new Map<string, Start>();
  let waiting = 0;
  let failures = 0;
  let pumping: NodeJS.Timeout | undefined;
  let pausing: NodeJS.Timeout | undefined;

  function countPlaces(): void {
    const now = performance.now();
    places = Math.min(burst, places + ((now - countedAt) / 1000) * perSecond);
    countedAt = now;
  }

  /** While some cannot be started, all that comes is gathered. */
  const mayStart = (): boolean => places >= 1 && ready.length === 0 && failures === 0;

  function reserve(event: ArrivedEvent): Ticket | undefined {
    const known = startOf.get(event.notificationId);
    if (known !== undefined) return { group: known.group, fill() {}, leave() {} };
    if (waiting >= waitingAtMost) {
      options.metrics.withoutWorkflow(1);
      return undefined;
    }
    waiting++;
    countPlaces();
    if (groups.length === 0 && mayStart()) {
      places--;
      const own = newStart(ids.enrichment(event.clientToken, event.notificationId), undefined);
      own.isClosed = true;
      return ticketOf(own);
    }
    const bytes = bytesOf(event);
    let group = groups.at(-1);
    if (group === undefined || group.reserved >= groupAtMost || group.bytes + bytes > groupBytes) {
      const name = randomBytes(9).toString('base64url');
      group = newStart(ids.group(name), name);
      groups.push(group);
      pumpLater();
    }
    group.bytes += bytes;
    return ticketOf(group);
  }

  function ticketOf(its: Start): Ticket {
    its.reserved++;
    its.open++;
    return {
      group: its.group,
      fill(event) {
        its.open--;
        its.events.push(event);
        startOf.set(event.notificationId, its);
        startIfComplete(its);
      },
      leave() {
        its.open--;
        waiting--;
        startIfComplete(its);
      },
    };
  }

  function pumpLater(): void {
    countPlaces();
    pumping ??= setTimeout(pump, Math.max(1, ((1 - places) / perSecond) * 1000));
  }

  /** The oldest groups get the places that are free, and take nothing more. */
  function pump(): void {
    pumping = undefined;
    countPlaces();
    while (groups.length > 0 && mayStart()) {
      const next = groups.shift() as Start;
      places--;
      next.isClosed = true;
      startIfComplete(next);
    }
    if (groups.length > 0) pumpLater();
  }

  function startIfComplete(its: Start): void {
    if (!its.isClosed || its.open > 0) return;
    if (its.events.length === 0) {
      places++;
      return;
    }
    ready.push(its);
    startReady();
  }

  function startReady(): void {
    // After a failure one is tried, and the others wait for what becomes of it.
    while (ready.length > 0 && pausing === undefined && starting.size < (failures > 0 ? 1 : startsAtOnce)) {
      const started = start(ready.shift() as Start);
      starting.add(started);
      void started.then(() => {
        starting.delete(started);
        startReady();
      });
    }
  }

  async function start(its: Start): Promise<void> {
    try {
      await startWorkflow(options, its.workflowId, its.events);
      failures = 0;
      letGo(its);
      options.metrics.started(its.events.length);
    } catch (err) {
      if (!isTemporalUnavailable(err)) {
        letGo(its);
        options.metrics.withoutWorkflow(its.events.length);
        options.log.error({ err, workflow_id: its.workflowId }, 'a workflow cannot be started');
        return;
      }
      if (failures++ === 0) options.log.warn(`${reasonOf(err)}: events are delivered, their workflows wait`);
      ready.unshift(its);
      pausing ??= setTimeout(
        () => {
          pausing = undefined;
          startReady();
        },
        Math.min(pauseMs.first * 2 ** (failures - 1), pauseMs.longest),
      );
    }
  }

  function letGo({ events }: Start): void {
    waiting -= events.length;
    for (const { notificationId } of events) startOf.delete(notificationId);
  }

  return {
    reserve,
    waiting: () => waiting,
    async close() {
      const end = performance.now() + closeWithinMs;
      for (const group of groups.splice(0)) {
        group.isClosed = true;
        startIfComplete(group);
      }
      while (waiting > 0 && performance.now() < end) {
        await Promise.race([...starting, sleep(50)]);
      }
      clearTimeout(pumping);
      clearTimeout(pausing);
    },
  };
}

function newStart(workflowId: string, group: string | undefined): Start {
  return { workflowId, group, events: [], bytes: 0, reserved: 0, open: 0, isClosed: false };
}

async function startWorkflow(
  options: OutboxOptions,
  workflowId: string,
  events: ClaimedEvent[],
): Promise<void> {
  const input: EnrichmentInput = { events };
  await options.temporal.workflow.start('enrichment', {
    workflowId,
    taskQueue: options.taskQueue,
    args: [input],
    // The same id means the same input: a repeat joins the one that runs.
    workflowIdConflictPolicy: 'USE_EXISTING',
    requestEagerStart: options.eager,
    staticSummary: summaryOf(events),
    typedSearchAttributes: [...listsOf(events).lists, { key: notificationStateKey, value: 'delivering' }],
  });
}

function reasonOf(err: unknown): string {
  return isOverLimit(err)
    ? 'Temporal starts no workflow for now, a limit of its namespace is used up (RESOURCE_EXHAUSTED)'
    : 'Temporal is away';
}

function summaryOf(events: ClaimedEvent[]): string {
  const [only] = events;
  if (events.length === 1 && only !== undefined) {
    return `asset-update of ${only.platformId.slice(0, 80)} to ${only.clientToken}`;
  }
  return `${events.length} events of ${new Set(events.map((e) => e.clientToken)).size} clients`;
}

function bytesOf(event: ArrivedEvent): number {
  return 300 + event.platformId.length * 3 + event.segments.reduce((sum, s) => sum + s.length * 3 + 3, 0);
}
