import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ArrivedEvent, ClaimedEvent } from '../redis/owed/claim.js';
import type { Ended } from '../redis/owed/standing.js';
import type { Verdict } from '../redis/owed/turn.js';
import { type WorkflowIds, workflowIds } from '../temporal/workflowIds.js';
import { StartBudget, type StartDeps, WorkflowStarts } from '../temporal/workflowStarts.js';
import { type EnrichmentInput, sumUp } from './outcome.js';

interface OutboxDeps extends StartDeps {
  /** Starts per second of all processes together; a burst may have the same number. */
  workflowsPerSecond: number;
  /** How many processes share these starts now. */
  processes: () => number;
  /** True if this process delivers: no delivery waits for a start, and fewer starts cost Temporal less. */
  delivers: boolean;
  /** Called when an event whose claim was answered late is in another group than its record says. */
  onMoved(event: ClaimedEvent, group: string): void;
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
/** How long a group gathers events at least. */
const gatherMs = { delivers: 500, startsOnly: 1 };
/** A closed group waits so long for its claims if deliveries wait for its start, otherwise for the first attempts. */
const settleMs = 100;
const closeWithinMs = 3000;
const closePollMs = 50;
/** While starts fail or wait, groups wait at least so long. */
const restMs = 100;
/** A timer takes 24 days at most. */
const maxRestMs = 60_000;

class Collected {
  readonly events: ClaimedEvent[] = [];
  /** What was delivered before the start, by notification. */
  readonly delivered = new Map<string, Ended>();
  /** Of all its reservations; `filledBytes`: of its events. */
  bytes = 0;
  filledBytes = 0;
  /** Reservations that are neither filled nor given back yet. */
  open = 0;
  readonly openedAt = performance.now();
  /** `closed`: it accepts no further reservation; `late`: it has been closed for `settleMs`. */
  state: 'open' | 'closed' | 'late' | 'started' = 'open';

  /** @param group undefined: the workflow of one event */
  constructor(readonly group?: string) {}
}

/**
 * Gives every accepted event a workflow, within a budget of starts: its own workflow if the budget allows it, else the open group. A full
 * group starts without the budget, so that no load outruns the starts. Where this process delivers, no delivery waits for a start;
 * otherwise a group waits only a moment for claims without an answer, whose events then go into another group. While Temporal is
 * unavailable the outbox fills up to a bound, and events beyond it get no workflow.
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
  reserve(event: Omit<ArrivedEvent, 'notify'>): Reservation | undefined {
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
      const own = new Collected();
      this.#close(own);
      return this.#reserveIn(own, bytes);
    }
    return this.#reserveIn(this.#groupFor(bytes), bytes);
  }

  /** Notes that an event was delivered: its workflow starts with less to do. */
  delivered({ taken: { notificationId }, attempt: { status, milliseconds } }: Verdict): void {
    const collected = this.#workflowOf.get(notificationId);
    if (collected === undefined) return;
    collected.delivered.set(notificationId, { state: 'delivered', status, milliseconds });
    this.#startIfComplete(collected);
  }

  waiting(): number {
    return this.#queuedEvents;
  }

  /** Starts waiting workflows for a bounded time. The sweep finds owed assets of the rest. */
  async close(): Promise<void> {
    const endAt = performance.now() + closeWithinMs;
    for (const group of this.#groups.splice(0)) this.#close(group);
    while (this.#queuedEvents > 0 && performance.now() < endAt) await sleep(closePollMs);
    clearTimeout(this.#startingGroups);
    this.#starts.close();
  }

  /** Returns the open group, or a new one if an event of so many bytes does not fit into it. */
  #groupFor(bytes: number): Collected {
    let group = this.#groups.at(-1);
    const size = group === undefined ? maxGroupEvents : group.events.length + group.open;
    if (group === undefined || size >= maxGroupEvents || group.bytes + bytes > maxGroupBytes) {
      group = new Collected(randomBytes(9).toString('base64url'));
      this.#groups.push(group);
      this.#startGroups();
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
        // A repeat of an event that waits in a workflow already.
        if (event === undefined || this.#workflowOf.has(event.notificationId)) {
          collected.bytes -= bytes;
          this.#queuedEvents--;
          this.#queuedBytes -= bytes;
          if (collected.group === undefined) this.#budget.giveBack();
          this.#startIfComplete(collected);
        } else if (collected.state !== 'started') this.#put(event, collected, bytes);
        else {
          const other = this.#groupFor(bytes);
          other.bytes += bytes;
          this.#put(event, other, bytes);
          this.deps.onMoved(event, other.group ?? '');
        }
      },
    };
  }

  #put(event: ClaimedEvent, collected: Collected, bytes: number): void {
    collected.events.push(event);
    collected.filledBytes += bytes;
    this.#workflowOf.set(event.notificationId, collected);
    this.#startIfComplete(collected);
  }

  /** Starts the full groups, and the open one within the budget once it has gathered for a while. */
  #startGroups(): void {
    while (this.#groups.length > 0 && this.#starts.isCaughtUp) {
      if (this.#groups.length === 1 && (this.#gathersForMs() > 0 || !this.#budget.takeAll())) break;
      this.#close(this.#groups.shift() as Collected);
    }
    if (this.#groups.length === 0) return;
    this.#startingGroups ??= setTimeout(
      () => {
        this.#startingGroups = undefined;
        this.#startGroups();
      },
      Math.min(
        Math.max(this.#starts.isCaughtUp ? this.#gathersForMs() : restMs, this.#budget.nextInMs(), 1),
        maxRestMs,
      ),
    );
  }

  /** How much longer the open group gathers, ms. */
  #gathersForMs(): number {
    const least = this.deps.delivers ? gatherMs.delivers : gatherMs.startsOnly;
    return least - (performance.now() - (this.#groups[0]?.openedAt ?? 0));
  }

  #close(collected: Collected): void {
    collected.state = 'closed';
    this.#startIfComplete(collected);
    if (collected.state !== 'closed') return;
    setTimeout(() => {
      if (collected.state === 'closed') collected.state = 'late';
      this.#startIfComplete(collected);
    }, settleMs);
  }

  #startIfComplete(collected: Collected): void {
    const { state, events, delivered, open } = collected;
    if (state === 'open' || state === 'started' || events.length === 0) return;
    const { delivers } = this.deps;
    const isComplete = open === 0 && (!delivers || delivered.size === events.length);
    if (isComplete || (state === 'late' && (!delivers || open === 0))) void this.#start(collected);
  }

  async #start(collected: Collected): Promise<void> {
    const { group, events, delivered, filledBytes } = collected;
    const [{ clientToken, notificationId }] = events as [ClaimedEvent];
    const workflowId =
      group === undefined ? this.#ids.enrichment(clientToken, notificationId) : this.#ids.group(group);
    collected.state = 'started';
    const input = (): EnrichmentInput => ({
      events: events.filter(({ notificationId }) => !delivered.has(notificationId)),
      before: sumUp([...delivered.values()]),
    });
    await this.#starts.start({ workflowId, events, input });
    this.#queuedEvents -= events.length;
    this.#queuedBytes -= filledBytes;
    for (const { notificationId } of events) this.#workflowOf.delete(notificationId);
  }
}

const estimateBytes = (event: Pick<ArrivedEvent, 'platformId' | 'segments'>): number =>
  450 + event.platformId.length * 3 + event.segments.reduce((sum, s) => sum + s.length * 3 + 3, 0);
