/**
 * The intake: accepted events become workflows. One start is in flight at a time; what arrives meanwhile goes
 * together into the next (DESIGN fact 1). At light load every event has a workflow of its own, without waiting. At
 * heavy load an event whose claim is on Redis' disk is durable before its workflow is, and is not kept waiting for it.
 */
import { createHash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Client } from '@temporalio/client';
import type { AcceptedEvent } from '../../activities/outcome.js';
import type { EnrichmentInput } from '../../workflows/enrichment.js';
import { listsOf, notificationStateKey } from '../../workflows/searchAttributes.js';
import type { Logger } from '../log.js';
import type { Ahead } from './ahead.js';
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
  /** The worker's first attempts, where it shares this process. */
  pace?: Pace;
  /** Where the worker shares this process: first attempts begin before their workflow does. */
  ahead?: Ahead;
  /** How long events gather for the next start at heavy load (100). */
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
 * A workflow costs much and each of its events little. Where first attempts do not wait for it, a start after one of so
 * many events lets others gather first. Those are not kept waiting: an event whose claim is on Redis' disk is durable.
 */
const gatherFrom = 32;
/** What waits for a start is never more than this if it has been answered: beyond it callers wait too. */
const answeredAtMost = 1000;
/** A start that takes longer says that Temporal may be away: what comes then is answered when it is back. */
const promptMs = 250;

interface Waiting {
  event: AcceptedEvent;
  /** Its first attempt has begun. */
  begun: boolean;
  resolve(): void;
  reject(err: unknown): void;
}

export function createIntake(options: IntakeOptions): Intake {
  const lanes = { live: [] as Waiting[], backfill: [] as Waiting[] };
  const perClient = new Map<string, number>();
  let waiting = 0;
  /** Whether the last start was answered: while Temporal is away nothing begins ahead of it. */
  let answered = true;
  let pumping: Promise<void> | undefined;
  let gathering = false;
  let closing = false;
  /** Of the start in flight, ms on the monotonic clock. */
  let startedAt: number | undefined;

  /** Whether who sent an event that is claimed need not wait for its start. */
  function isPrompt(clientToken: string): boolean {
    const ofClient = perClient.get(clientToken) ?? 0;
    const isLate = startedAt !== undefined && performance.now() > startedAt + promptMs;
    return gathering && !isLate && waiting <= answeredAtMost && ofClient <= groupPerClient;
  }

  function leave(entry: Waiting): void {
    waiting--;
    const rest = (perClient.get(entry.event.clientToken) ?? 1) - 1;
    if (rest === 0) perClient.delete(entry.event.clientToken);
    else perClient.set(entry.event.clientToken, rest);
  }

  async function pump(): Promise<void> {
    while (waiting > 0) {
      const group = cutGroup(lanes);
      for (const entry of group) leave(entry);
      options.grouped?.(group.length);
      startedAt = performance.now();
      const until = startedAt + (options.gatherMs ?? 100);
      const sent = options.pace?.sent((group[0] as Waiting).event.notificationId);
      answered = await startGroup(options, group);
      startedAt = undefined;
      gathering = answered && group.length >= gatherFrom && group.every((w) => w.begun);
      if (!answered) continue;
      await sent;
      while (gathering && !closing && waiting < groupAtMost && performance.now() < until) await sleep(5);
    }
  }

  return {
    accept(event) {
      const ofClient = perClient.get(event.clientToken) ?? 0;
      if (waiting >= waitingAtMost || ofClient >= waitingPerClient) {
        return Promise.reject(new IntakeUnavailable('more events are waiting than the intake holds', 1));
      }
      const claimed = answered ? options.ahead?.begin(event) : undefined;
      return new Promise((resolve, reject) => {
        lanes[event.priority].push({ event, begun: claimed !== undefined, resolve, reject });
        void claimed?.then((isClaimed) => {
          if (isClaimed && isPrompt(event.clientToken)) resolve();
        });
        waiting++;
        perClient.set(event.clientToken, ofClient + 1);
        pumping ??= Promise.resolve()
          .then(pump)
          .finally(() => {
            pumping = undefined;
            gathering = false;
          });
      });
    },
    waiting: () => waiting,
    async close() {
      closing = true;
      while (pumping !== undefined) await pumping;
    },
  };
}

/** The next group, in the order of arrival but for clients that have had their share of it. */
function cutGroup(lanes: { live: Waiting[]; backfill: Waiting[] }): Waiting[] {
  const name = lanes.live.length > 0 ? 'live' : 'backfill';
  const group: Waiting[] = [];
  const left: Waiting[] = [];
  const shares = new Map<string, number>();
  let bytes = 0;
  for (const [i, entry] of lanes[name].entries()) {
    const { clientToken } = entry.event;
    const share = shares.get(clientToken) ?? 0;
    if (share >= groupPerClient && !entry.begun) {
      left.push(entry);
      continue;
    }
    bytes += bytesOf(entry.event);
    if (group.length >= groupAtMost || (group.length > 0 && bytes > groupBytes)) {
      left.push(...lanes[name].slice(i));
      break;
    }
    shares.set(clientToken, share + 1);
    group.push(entry);
  }
  lanes[name] = left;
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
