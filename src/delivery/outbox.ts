import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ArrivedEvent, ClaimedEvent } from '../redis/owed/claim.js';
import { type WorkflowIds, workflowIds } from '../temporal/workflowIds.js';
import { StartBudget } from './startBudget.js';
import { type StartDeps, WorkflowStarts } from './workflowStarts.js';

interface OutboxDeps extends StartDeps {
  /** Starts per second of all processes together; a burst may have the same number. */
  workflowsPerSecond: number;
  /** How many processes share these starts now. */
  processes: () => number;
  /** How long a group gathers events at least. */
  gatherMs: number;
  /** Size of the events that wait for their workflow (32 MiB). */
  maxQueuedBytes?: number;
}

/** The right of an event to be in a workflow. */
interface Reservation {
  /** The value that the claim writes into the notification's record; undefined if the event has its own workflow. */
  group: string | undefined;
  /** Puts the claimed event into the workflow; undefined: nothing was claimed. */
  fill(event: ClaimedEvent | undefined): void;
}

const maxGroupEvents = 500;
/** Temporal takes 2 MB per payload. */
const maxGroupBytes = 512 * 1024;
/** 19,000 events with 20 segments of 20 characters. */
const maxQueuedBytes = 32 * 1024 * 1024;
const closeWithinMs = 3000;
const closePollMs = 50;
/** While starts fail or wait, groups wait at least so long. */
const restMs = 100;

interface Collected {
  workflowId: string;
  group: string | undefined;
  events: ClaimedEvent[];
  bytes: number;
  /** Reservations that are neither filled nor given back yet. */
  open: number;
  /** It accepts no further event. */
  isClosed: boolean;
}

/**
 * Gives every accepted event a workflow, within a budget of starts: its own workflow if the budget allows it, else the
 * open group. A full group starts without the budget, so that no load outruns the starts. Only the workflow waits for its
 * start, never the delivery. While Temporal is unavailable the outbox fills up to a bound, and events beyond it get no
 * workflow.
 */
export class Outbox {
  readonly #ids: WorkflowIds;
  readonly #budget: StartBudget;
  readonly #starts: WorkflowStarts;
  /** Groups that wait for the budget, in order; arriving events go into the last one. */
  readonly #groups: Collected[] = [];
  /** Where each event waits, so that a repeated event makes no second reservation. */
  readonly #workflowOf = new Map<string, Collected>();
  #queuedEvents = 0;
  #queuedBytes = 0;
  #startingGroups: NodeJS.Timeout | undefined;

  constructor(readonly deps: OutboxDeps) {
    this.#ids = workflowIds(deps.taskQueue);
    this.#budget = new StartBudget(deps.workflowsPerSecond, deps.processes);
    this.#starts = new WorkflowStarts(deps);
  }

  /** Reserves the event's workflow, unless the event has a reservation. @returns undefined if the outbox is full */
  reserve(event: ArrivedEvent): Reservation | undefined {
    const known = this.#workflowOf.get(event.notificationId);
    if (known !== undefined) return { group: known.group, fill() {} };
    const bytes = estimateBytes(event);
    if (this.#queuedBytes + bytes > (this.deps.maxQueuedBytes ?? maxQueuedBytes)) {
      this.deps.metrics.withoutWorkflow(1);
      return undefined;
    }
    this.#queuedEvents++;
    this.#queuedBytes += bytes;
    // While starts fail, arriving events are gathered in groups.
    if (this.#groups.length === 0 && this.#starts.isCaughtUp && this.#budget.take()) {
      const own = collect(this.#ids.enrichment(event.clientToken, event.notificationId), undefined);
      own.isClosed = true;
      return this.#reserveIn(own, bytes);
    }
    return this.#reserveIn(this.#groupFor(bytes), bytes);
  }

  /** Returns how many events wait for their workflow. */
  waiting(): number {
    return this.#queuedEvents;
  }

  /** Starts waiting workflows for a bounded time. The sweep finds owed assets of the rest. */
  async close(): Promise<void> {
    const endAt = performance.now() + closeWithinMs;
    while (this.#groups.length > 0) this.#closeGroup();
    while (this.#queuedEvents > 0 && performance.now() < endAt) await sleep(closePollMs);
    clearTimeout(this.#startingGroups);
    this.#starts.close();
  }

  /** Returns the open group, or a new one if an event of so many bytes does not fit into it. */
  #groupFor(bytes: number): Collected {
    let group = this.#groups.at(-1);
    const size = group === undefined ? maxGroupEvents : group.events.length + group.open;
    if (group === undefined || size >= maxGroupEvents || group.bytes + bytes > maxGroupBytes) {
      const name = randomBytes(9).toString('base64url');
      group = collect(this.#ids.group(name), name);
      this.#groups.push(group);
      if (this.#groups.length > 1) this.#startGroups();
      this.#startGroupsLater();
    }
    return group;
  }

  #reserveIn(collected: Collected, bytes: number): Reservation {
    collected.open++;
    collected.bytes += bytes;
    return {
      group: collected.group,
      fill: (event) => {
        collected.open--;
        if (event !== undefined) {
          collected.events.push(event);
          this.#workflowOf.set(event.notificationId, collected);
        } else {
          collected.bytes -= bytes;
          this.#queuedEvents--;
          this.#queuedBytes -= bytes;
          if (collected.group === undefined) this.#budget.giveBack();
        }
        this.#startIfComplete(collected);
      },
    };
  }

  #startGroupsLater(): void {
    this.#startingGroups ??= setTimeout(
      () => {
        this.#startingGroups = undefined;
        this.#startGroups();
      },
      Math.max(this.#starts.isCaughtUp ? this.deps.gatherMs : restMs, this.#budget.nextInMs(), 1),
    );
  }

  /** Starts the oldest groups: those before the last are full, and the last one starts within the budget. */
  #startGroups(): void {
    while (this.#groups.length > 0 && this.#starts.isCaughtUp) {
      if (this.#groups.length === 1 && !this.#budget.takeAll()) break;
      this.#closeGroup();
    }
    if (this.#groups.length > 0) this.#startGroupsLater();
  }

  #closeGroup(): void {
    const group = this.#groups.shift() as Collected;
    group.isClosed = true;
    this.#startIfComplete(group);
  }

  #startIfComplete(collected: Collected): void {
    if (collected.isClosed && collected.open === 0 && collected.events.length > 0)
      void this.#start(collected);
  }

  async #start({ workflowId, events, bytes }: Collected): Promise<void> {
    await this.#starts.start({ workflowId, events });
    this.#queuedEvents -= events.length;
    this.#queuedBytes -= bytes;
    for (const { notificationId } of events) this.#workflowOf.delete(notificationId);
  }
}

function collect(workflowId: string, group: string | undefined): Collected {
  return { workflowId, group, events: [], bytes: 0, open: 0, isClosed: false };
}

/** Returns an upper bound for the payload of an event. */
function estimateBytes(event: ArrivedEvent): number {
  return 450 + event.platformId.length * 3 + event.segments.reduce((sum, s) => sum + s.length * 3 + 3, 0);
}
