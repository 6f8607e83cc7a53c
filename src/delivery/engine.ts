/**
 * The one engine of a process that delivers: takes, POSTs and settles. Whoever asks for the same notification again, the
 * workflow after the API or a drain beside both, finds it begun.
 */

import { setTimeout as sleep } from 'node:timers/promises';
import type { Take, TakeMode } from '../redis/owed/take.js';
import { type AttemptsDeps, ClientAttempts } from './clientAttempts.js';
import type { Outcome } from './outcome.js';
import { type Delivery, Work } from './work.js';

export type EngineOptions = Omit<AttemptsDeps, 'beginNext'>;

export interface Engine {
  /**
   * Begins the first attempt of what was claimed here, or finds it begun.
   * @param take what the claim's take answered
   */
  begin(delivery: Delivery, take?: Take): Promise<Outcome>;
  /** Waits for an attempt's outcome, and begins it where nobody has. */
  join(delivery: Delivery, mode: TakeMode): Promise<Outcome>;
  /** Nobody will join what was begun of these. */
  forget(notificationIds: Iterable<string>): void;
  /** Whether events of this client wait for a place here. */
  isQueueing(clientToken: string): boolean;
  /** Notifications that wait for a place. */
  queued(): number;
  /** Takes nothing more and waits for the attempts under way; what still waits is left to catch-up. */
  close(): Promise<void>;
}

/** Events of each priority, so that a full queue of the one refuses nothing of the other: in all, and of one client. */
const queuedInAll = 20_000;
const queuedPerClient = 5_000;
const wakeWithinMs = 2000;
/** How long an outcome waits for its workflow to join: one to two of these. */
const keptMs = 30_000;

export function createEngine(options: EngineOptions): Engine {
  const clients = new Map<string, ClientAttempts>();
  const works = new Map<string, Work>();
  /** Of first attempts that have ended and that nobody has joined yet. */
  let ended = new Map<string, Promise<Outcome>>();
  let older: typeof ended = new Map();
  const dropping = setInterval(() => {
    older = ended;
    ended = new Map();
  }, keptMs);
  dropping.unref();
  const queued = { live: 0, backfill: 0, planned: 0 };
  let closed = false;

  const deps: AttemptsDeps = {
    ...options,
    beginNext: (delivery) => {
      const known = works.get(delivery.notificationId);
      if (known === undefined) run(delivery, 'first', undefined, true);
      else attemptsOf(delivery.clientToken).proceed(known);
    },
  };

  function attemptsOf(clientToken: string): ClientAttempts {
    let attempts = clients.get(clientToken);
    if (attempts === undefined) {
      attempts = new ClientAttempts(clientToken, deps, () => clients.delete(clientToken));
      clients.set(clientToken, attempts);
    }
    return attempts;
  }

  function run(delivery: Delivery, mode: TakeMode, take?: Take, isNext = false): Work {
    const key = keyOf(delivery, mode);
    const known = works.get(key);
    if (known !== undefined) {
      // It waits its turn already; the place that its claim has taken is somebody else's.
      if (take?.kind === 'taken') attemptsOf(delivery.clientToken).giveBack(delivery.platformId, take.token);
      return known;
    }
    const work = new Work(delivery, mode);
    if (closed) {
      work.end({ state: 'waiting', reason: 'leased', inMs: 1000, failures: 0 });
      return work;
    }
    works.set(key, work);
    void work.outcome.then(() => works.delete(key));
    const attempts = attemptsOf(delivery.clientToken);
    if (take?.kind === 'taken') attempts.start(work, take);
    else enqueue(attempts, work, take, isNext);
    return work;
  }

  function enqueue(attempts: ClientAttempts, work: Work, take: Take | undefined, isNext: boolean): void {
    const { priority, clientToken } = work.delivery;
    // A drain plans a few at a time, and would find them again at once.
    const lane = work.mode === 'drain' || work.mode === 'probe' ? 'planned' : priority;
    if (lane !== 'planned' && (queued[lane] >= queuedInAll || attempts.queuedIn(lane) >= queuedPerClient)) {
      work.end({ state: 'waiting', reason: 'queue_full', inMs: 0, failures: 0 });
      void options.catchUps.wake(clientToken, 0);
      return;
    }
    queued[lane]++;
    void work.outcome.then(() => queued[lane]--);
    if (take === undefined) attempts.enqueue(work, isNext);
    else attempts.enqueueAnswered(work, take);
  }

  return {
    begin(delivery, take) {
      const { outcome } = run(delivery, 'first', take);
      ended.set(delivery.notificationId, outcome);
      return outcome;
    },
    join(delivery, mode) {
      const { notificationId } = delivery;
      const begun = ended.get(notificationId) ?? older.get(notificationId);
      if (mode !== 'redeliver') {
        ended.delete(notificationId);
        older.delete(notificationId);
      }
      return mode === 'first' && begun !== undefined ? begun : run(delivery, mode).outcome;
    },
    forget(notificationIds) {
      for (const id of notificationIds) {
        ended.delete(id);
        older.delete(id);
      }
    },
    isQueueing: (clientToken) => (clients.get(clientToken)?.queued ?? 0) > 0,
    queued: () => queued.live + queued.backfill + queued.planned,
    async close() {
      closed = true;
      clearInterval(dropping);
      const woken: Promise<void>[] = [];
      for (const [clientToken, attempts] of clients) {
        const left = attempts.close();
        for (const work of left) work.end({ state: 'waiting', reason: 'leased', inMs: 1000, failures: 0 });
        if (left.length > 0) woken.push(options.catchUps.wake(clientToken, 0));
      }
      await Promise.all([...works.values()].map(({ outcome }) => outcome));
      // While Temporal is away they do not end: the sweep finds what is owed.
      await Promise.race([Promise.all(woken), sleep(wakeWithinMs)]);
    },
  };
}

function keyOf({ notificationId }: Delivery, mode: TakeMode): string {
  return mode === 'redeliver' ? `again ${notificationId}` : notificationId;
}
