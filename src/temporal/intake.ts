/**
 * The intake: accepted events become workflows. One start is in flight at a time; what arrives meanwhile goes
 * together into the next (DESIGN fact 1). At light load every event has a workflow of its own, without waiting. At
 * heavy load an event whose claim is on Redis' disk is durable without one: nobody waits for its start, and what is done
 * with before is not started at all.
 */
import { createHash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Client } from '@temporalio/client';
import type { AcceptedEvent, ArrivedEvent } from '../../activities/outcome.js';
import type { EnrichmentInput } from '../../workflows/enrichment.js';
import { listsOf, notificationStateKey } from '../../workflows/searchAttributes.js';
import type { Logger } from '../log.js';
import type { Look } from '../store/look.js';
import type { Ahead, Begun } from './ahead.js';
import type { Pace } from './pace.js';

/** More waits than the intake holds, or Temporal does not answer. Whether the event was taken is unknown. */
export class IntakeUnavailable extends Error {
  override name = 'IntakeUnavailable';
  constructor(
    message: string,
    readonly retryAfterSeconds: number,
  ) {
    super(message);
  }
}

export interface Intake {
  /**
   * At heavy load: looks, claims and begins the first attempt in one step, and accepts what is new.
   * @returns undefined where the event is to be looked at first; @throws as {@link accept}, and when Redis is away
   */
  takeAtOnce(event: ArrivedEvent): Promise<Look | undefined> | undefined;
  /** Resolves when the event is durable: its workflow has started or, at heavy load, its claim is on Redis' disk. @throws IntakeUnavailable */
  accept(event: AcceptedEvent): Promise<void>;
  waiting(): number;
  /** Waits for what is under way. */
  close(): Promise<void>;
}

export interface IntakeOptions {
  temporal: Client;
  taskQueue: string;
  log: Logger;
  /** The worker shares this process: its first workflow task comes back with the start. */
  eager: boolean;
  grouped?: (events: number) => void;
  /** An event was finished, delivered for the most part, before a workflow was started for it. */
  withoutWorkflow?: () => void;
  /** The worker's first attempts, where it shares this process. */
  pace?: Pace;
  /** Where the worker shares this process: first attempts begin before their workflow does. */
  ahead?: Ahead;
  /** How long an event goes without a workflow at heavy load (100). */
  gatherMs?: number;
}

const waitingAtMost = 5000;
/** Of those for one client: one customer's flood leaves room for the others. */
const waitingPerClient = 2500;
const groupAtMost = 500;
/**
 * Of those of one client: what the others wait for is never more than this of one customer's flood. Nothing waits where
 * first attempts have begun.
 */
const groupPerClient = 64;
/** Temporal takes 2 MB per payload. */
const groupBytes = 512 * 1024;
const startWithinMs = 1700;

/**
 * Heavy load: so many events arrive in the time of a start, then at least once in five times `gatherMs` (Redis' disk may
 * stand still in between). A workflow costs much, and what is delivered, or left to catch-up, needs none.
 */
const gatherFrom = 32;
/** What waits for a start is never more than this if it has been answered: beyond it callers wait too. */
const answeredAtMost = 1000;
/** A start that takes longer says that Temporal may be away: what comes then is answered when it is back. */
const promptMs = 250;

interface Waiting {
  event: AcceptedEvent;
  /** ms on the monotonic clock */
  since: number;
  /** Its first attempt has begun. */
  begun: boolean;
  resolve(): void;
  reject(err: unknown): void;
}

/** In the order of their arrival. */
type Lanes = Record<AcceptedEvent['priority'], Set<Waiting>>;

export function createIntake(options: IntakeOptions): Intake {
  const gatherMs = options.gatherMs ?? 100;
  const lanes: Lanes = { live: new Set(), backfill: new Set() };
  /** Events that are taken and neither answered nor in a workflow, of all clients and of each. */
  let waiting = 0;
  const perClient = new Map<string, number>();
  /** First attempts that began since the last group was cut. */
  let begun = 0;
  /** Whether the last start was answered: while Temporal is away nothing begins ahead of it. */
  let answered = true;
  let pumping: Promise<void> | undefined;
  let heavy = false;
  /** When many had come, ms on the monotonic clock. */
  let manyAt = Number.NEGATIVE_INFINITY;
  let closing = false;
  /** Of the start in flight, ms on the monotonic clock. */
  let startedAt: number | undefined;

  /** Whether an event may be answered before its workflow is started: many come in, and Temporal answers in time. */
  function isPrompt(): boolean {
    return heavy && !(startedAt !== undefined && performance.now() > startedAt + promptMs);
  }

  /** Whether who sent an event that is claimed need not wait for its start. */
  function hasRoom(clientToken: string): boolean {
    return waiting <= answeredAtMost && (perClient.get(clientToken) ?? 0) <= groupPerClient;
  }

  function come(clientToken: string): void {
    waiting++;
    perClient.set(clientToken, (perClient.get(clientToken) ?? 0) + 1);
  }

  function go(clientToken: string): void {
    waiting--;
    const rest = (perClient.get(clientToken) ?? 1) - 1;
    if (rest === 0) perClient.delete(clientToken);
    else perClient.set(clientToken, rest);
  }

  function leave(entry: Waiting): void {
    lanes[entry.event.priority].delete(entry);
    go(entry.event.clientToken);
  }

  const queued = () => lanes.live.size + lanes.backfill.size;

  async function pump(): Promise<void> {
    let askedAt = 0;
    try {
      while (queued() > 0 || heavy) {
        const since = performance.now();
        // Something is started every so often all the same: it shows whether Temporal is there.
        const gathers = heavy && !closing && queued() < groupAtMost && since < askedAt + 5 * gatherMs;
        const group = cutGroup(lanes, gathers ? since - gatherMs : since);
        if (begun >= gatherFrom) manyAt = since;
        begun = 0;
        if (group.length > 0) {
          askedAt = since;
          await startAndWait(group);
        }
        heavy = since < manyAt + 5 * gatherMs && answered && !closing;
        while (heavy && !closing && queued() < groupAtMost && performance.now() < since + gatherMs)
          await sleep(5);
      }
    } finally {
      pumping = undefined;
      heavy = false;
    }
  }

  async function startAndWait(group: Waiting[]): Promise<void> {
    for (const entry of group) leave(entry);
    options.grouped?.(group.length);
    const sent = options.pace?.sent((group[0] as Waiting).event.notificationId);
    startedAt = performance.now();
    answered = await startGroup(options, group);
    startedAt = undefined;
    if (answered) await sent;
  }

  /** Until it is durable. */
  function enter(event: AcceptedEvent, ahead: Begun | undefined): Promise<void> {
    const { clientToken, priority } = event;
    return new Promise((resolve, reject) => {
      const entry = { event, since: performance.now(), begun: ahead !== undefined, resolve, reject };
      lanes[priority].add(entry);
      pumping ??= Promise.resolve().then(pump);
      if (ahead === undefined) return;
      begun++;
      void ahead.claimed.then((isClaimed) => {
        if (isClaimed && isPrompt() && hasRoom(clientToken)) resolve();
      });
      void ahead.finished.then((isFinished) => {
        if (!isFinished || !isPrompt() || !lanes[priority].has(entry)) return;
        leave(entry);
        options.ahead?.forget(event);
        options.withoutWorkflow?.();
        resolve();
      });
    });
  }

  async function takeBegun(event: ArrivedEvent, ahead: Begun): Promise<Look | undefined> {
    come(event.clientToken);
    let look: Look | undefined;
    try {
      look = await ahead.look();
    } finally {
      if (look?.kind !== 'new') {
        go(event.clientToken);
        options.ahead?.forget(event);
      }
    }
    if (look?.kind === 'new') await enter({ ...event, lookedUpClaim: look.claim }, ahead);
    return look;
  }

  return {
    takeAtOnce(event) {
      const ahead = isPrompt() && hasRoom(event.clientToken) ? options.ahead?.begin(event) : undefined;
      return ahead && takeBegun(event, ahead);
    },
    accept(event) {
      if (waiting >= waitingAtMost || (perClient.get(event.clientToken) ?? 0) >= waitingPerClient) {
        return Promise.reject(new IntakeUnavailable('more events are waiting than the intake holds', 1));
      }
      come(event.clientToken);
      return enter(event, answered ? options.ahead?.begin(event) : undefined);
    },
    waiting: () => waiting,
    async close() {
      closing = true;
      while (pumping !== undefined) await pumping;
    },
  };
}

/**
 * The next group of what has waited since before then, in the order of arrival but for clients that have had their share
 * of it. Backfill follows where nothing live is.
 */
function cutGroup(lanes: Lanes, before: number): Waiting[] {
  const live = cut(lanes.live, before);
  return live.length > 0 ? live : cut(lanes.backfill, before);
}

function cut(lane: Iterable<Waiting>, before: number): Waiting[] {
  const group: Waiting[] = [];
  const shares = new Map<string, number>();
  let bytes = 0;
  for (const entry of lane) {
    if (entry.since > before || group.length >= groupAtMost) break;
    const { clientToken } = entry.event;
    const share = shares.get(clientToken) ?? 0;
    if (share >= groupPerClient && !entry.begun) continue;
    bytes += bytesOf(entry.event);
    if (group.length > 0 && bytes > groupBytes) break;
    shares.set(clientToken, share + 1);
    group.push(entry);
  }
  return group;
}

function bytesOf(event: AcceptedEvent): number {
  return 300 + event.platformId.length * 3 + event.segments.reduce((sum, s) => sum + s.length * 3 + 3, 0);
}

/** Whether Temporal has answered. */
async function startGroup(options: IntakeOptions, group: Waiting[]): Promise<boolean> {
  try {
    await start(
      options,
      group.map((w) => w.event),
    );
    for (const w of group) w.resolve();
    return true;
  } catch (err) {
    const isAway = err instanceof IntakeUnavailable;
    if (group.length === 1 || isAway) {
      for (const w of group) w.reject(err);
      return !isAway;
    }
    // One bad event must not harm the others: each is tried by itself.
    options.log.warn(
      { err, events: group.length },
      'a group could not be started; its events are tried apart',
    );
    let answered = true;
    for (const w of group) answered = await startGroup(options, [w]);
    return answered;
  }
}

async function start(options: IntakeOptions, events: AcceptedEvent[]): Promise<void> {
  const input: EnrichmentInput = { events };
  const started = options.temporal.workflow.start('enrichment', {
    workflowId: workflowIdOf(events),
    taskQueue: options.taskQueue,
    args: [input],
    // The same id means the same input: a repeat joins the one that runs.
    workflowIdConflictPolicy: 'USE_EXISTING',
    requestEagerStart: options.eager,
    staticSummary: summaryOf(events),
    typedSearchAttributes: attributesOf(events),
  });
  await within(startWithinMs, started);
}

function workflowIdOf(events: AcceptedEvent[]): string {
  const [only] = events;
  if (events.length === 1 && only !== undefined) return enrichmentId(only.clientToken, only.notificationId);
  const hash = createHash('sha256');
  for (const event of events) hash.update(event.notificationId);
  return `enrichment/group/${hash.digest('base64url')}`;
}

export function enrichmentId(clientToken: string, notificationId: string): string {
  return `enrichment/${clientToken}/${notificationId}`;
}

function summaryOf(events: AcceptedEvent[]): string {
  const [only] = events;
  if (events.length === 1 && only !== undefined) {
    return `asset-update of ${only.platformId.slice(0, 80)} to ${only.clientToken}`;
  }
  return `${events.length} events of ${new Set(events.map((e) => e.clientToken)).size} clients`;
}

/** Of a large group not all: what it still has waiting after its first attempts is listed by the workflow. */
function attributesOf(events: AcceptedEvent[]) {
  return [...listsOf(events).lists, { key: notificationStateKey, value: 'claiming' }];
}

async function within(timeoutMs: number, started: Promise<unknown>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new IntakeUnavailable('Temporal did not answer in time', 2)), timeoutMs);
  });
  try {
    await Promise.race([started, late]);
  } catch (err) {
    if (err instanceof IntakeUnavailable || !isUnavailable(err)) throw err;
    throw new IntakeUnavailable('Temporal is away', 2);
  } finally {
    clearTimeout(timer);
    started.catch(() => undefined);
  }
}

/** gRPC codes that say nothing against the event: cancelled, deadline, exhausted, aborted, internal, unavailable. */
const unavailableCodes = new Set([1, 2, 4, 8, 10, 13, 14]);

function isUnavailable(err: unknown): boolean {
  for (let e = err; e instanceof Error; e = e.cause) {
    const { code } = e as Error & { code?: unknown };
    if (typeof code === 'number') return unavailableCodes.has(code);
  }
  return false;
}
