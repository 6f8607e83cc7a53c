/**
 * The attempts of one client in this process: those that wait for a place, in the order in which they came, and those
 * under way. What ends and what comes next are settled and taken together, a turn at a time, one turn after the other.
 */
import { randomBytes } from 'node:crypto';
import type { Logger } from '../log.js';
import type { PostResult, Sender } from '../outgoing/post.js';
import type { Db } from '../redis/connection/db.js';
import { untilRedisAnswers } from '../redis/connection/untilRedisAnswers.js';
import { type Turned, turnAttempts } from '../redis/owed/attempts.js';
import { claimAgain } from '../redis/owed/claim.js';
import type { Settled, Verdict } from '../redis/owed/settle.js';
import type { Take, Taken } from '../redis/owed/take.js';
import type { AttemptHistory } from '../redis/records/attemptHistory.js';
import type { SecretBox } from '../redis/records/secretBox.js';
import { tellStateChange } from '../tellStateChange.js';
import type { CatchUps } from '../temporal/catchUps.js';
import { Asking, takenAtOnce } from './asking.js';
import { type Attempted, makeAttempt } from './attempt.js';
import type { Outcome } from './outcome.js';
import type { DeliverySettings } from './settings.js';
import type { Delivery, Work } from './work.js';

/** Where both wait, one place in so many goes to backfill. */
const backfillTurn = 4;
/** Another process holds the asset's lease: asked again after a time that grows up to this. */
const longestParkMs = 1000;

interface Answered {
  work: Work;
  verdict: Verdict;
  result: PostResult;
  target: string;
}

const nonces = { prefix: randomBytes(6).toString('base64url'), count: 0 };

/** Names a turn or a claim, and the attempts that it takes, among those of all processes. */
export function newNonce(): string {
  return `${nonces.prefix}${(nonces.count++).toString(36)}`;
}

export interface DeliveryMetrics {
  attempted(result: { ok: boolean; error?: string }, milliseconds: number): void;
  /** An attempt could not be made: no file descriptor, no resolver, no network. */
  ownFailure(cause: string): void;
  ended(state: string): void;
  entered(state: string): void;
}

export interface AttemptsDeps {
  db: Db;
  sender: Sender;
  secretBox: SecretBox;
  delivery: DeliverySettings;
  log: Logger;
  metrics: DeliveryMetrics;
  history: Pick<AttemptHistory, 'count'>;
  /** Neither rejects: what is not woken the sweep finds. */
  catchUps: Pick<CatchUps, 'signal' | 'wake'>;
  /** A newer notification of an asset whose attempt has ended. */
  beginNext(delivery: Delivery): void;
}

export class ClientAttempts {
  readonly #waiting = { live: [] as Work[], backfill: [] as Work[] };
  /** What waits for another attempt of its asset, with when it asks again. */
  readonly #parked = new Map<Work, NodeJS.Timeout>();
  #answered: Answered[] = [];
  #givenBack: { platformId: string; token: string; inMs: number }[] = [];
  #extensions: { platformId: string; token: string; resolve: (isHeld: boolean) => void }[] = [];
  /** Attempts under way in this process. */
  #underWay = 0;
  readonly #asking = new Asking(() => this.#turnSoon());
  #picks = 0;
  #turning = false;
  #closed = false;

  constructor(
    readonly clientToken: string,
    readonly deps: AttemptsDeps,
    readonly onIdle: () => void,
  ) {}

  get queued(): number {
    return this.#waiting.live.length + this.#waiting.backfill.length;
  }

  queuedIn(priority: 'live' | 'backfill'): number {
    return this.#waiting[priority].length;
  }

  /** It waits for its turn; `isNext`: before all others. */
  enqueue(work: Work, isNext = false): void {
    const queue = this.#waiting[work.delivery.priority];
    if (isNext) queue.unshift(work);
    else queue.push(work);
    if (isLive(work)) this.#asking.liveCame();
    this.#turnSoon();
  }

  /** Its claim has asked for a place already, and got this answer. */
  enqueueAnswered(work: Work, take: Take): void {
    if (this.#begin(work, take) === 'waits') this.enqueue(work);
  }

  start(work: Work, take: Taken): void {
    this.#underWay++;
    void this.#attempt(work, take);
  }

  /** What was taken and will not be attempted: it is due at once. */
  giveBack(platformId: string, token: string): void {
    this.#givenBack.push({ platformId, token, inMs: 0 });
    this.#turnSoon();
  }

  /** Takes nothing more; what waits stays owed. */
  close(): Work[] {
    this.#closed = true;
    this.#asking.close();
    for (const timer of this.#parked.values()) clearTimeout(timer);
    const parked = [...this.#parked.keys()];
    this.#parked.clear();
    return [...this.#waiting.live.splice(0), ...this.#waiting.backfill.splice(0), ...parked];
  }

  async #attempt(work: Work, take: Taken): Promise<void> {
    const { platformId } = work.delivery;
    const lease = { platformId, token: take.token };
    let attempted: Attempted;
    try {
      attempted = await makeAttempt(this.deps, work.delivery, take, work.mode === 'redeliver', {
        everyMs: this.deps.delivery.leaseMs / 3,
        extend: () => this.#extend(lease),
      });
    } catch (err) {
      this.deps.log.warn(
        { err, notification_id: work.delivery.notificationId },
        'an attempt failed to begin',
      );
      attempted = { kind: 'own_failure', cause: 'the signing secret' };
    }
    this.#underWay--;
    this.#asking.attemptEnded();
    switch (attempted.kind) {
      case 'answered': {
        const { verdict, result, target } = attempted;
        this.deps.metrics.attempted(result, result.milliseconds);
        this.deps.history.count(this.clientToken, result, result.milliseconds);
        this.#answered.push({ work, verdict, result, target });
        break;
      }
      case 'own_failure':
        this.deps.metrics.ownFailure(attempted.cause);
        this.deps.log.warn(
          { notification_id: work.delivery.notificationId, cause: attempted.cause },
          'an attempt could not be made, for a reason of this process',
        );
        this.#givenBack.push({ ...lease, inMs: ownFailurePauseMs });
        work.end({ state: 'waiting', reason: 'own_failure', inMs: ownFailurePauseMs, failures: 0 });
        break;
      case 'lost':
        this.#asking.full(this.#underWay > 0, this.#isLiveWaiting);
        work.end({ state: 'waiting', reason: 'leased', inMs: longestParkMs, failures: 0 });
        break;
    }
    this.#turnSoon();
  }

  #extend(lease: { platformId: string; token: string }): Promise<boolean> {
    return new Promise((resolve) => {
      this.#extensions.push({ ...lease, resolve });
      this.#turnSoon();
    });
  }

  #turnSoon(): void {
    if (this.#turning) return;
    this.#turning = true;
    // What else ends or comes in this turn of the event loop goes into the same call.
    setImmediate(() => void this.#turns());
  }

  async #turns(): Promise<void> {
    while (this.#hasSomethingToDo()) await this.#turn();
    this.#turning = false;
    if (this.#underWay === 0 && this.queued === 0 && this.#parked.size === 0) this.onIdle();
  }

  #hasSomethingToDo(): boolean {
    return (
      this.#answered.length + this.#givenBack.length + this.#extensions.length > 0 ||
      (this.queued > 0 && !this.#closed && this.#asking.isAllowed)
    );
  }

  async #turn(): Promise<void> {
    const answered = this.#answered.splice(0, takenAtOnce);
    const givenBack = this.#givenBack.splice(0);
    const extensions = this.#extensions.splice(0);
    const wanted = this.#pick(answered.length);
    const request = {
      nonce: newNonce(),
      verdicts: answered.map(({ verdict }) => verdict),
      givenBack,
      extended: extensions,
      wanted: wanted.map(({ work, share }) => ({
        platformId: work.delivery.platformId,
        notificationId: work.delivery.notificationId,
        mode: work.mode,
        ...(work.delivery.event && { claim: work.delivery.event.claim }),
        share,
      })),
    };
    const { db, delivery } = this.deps;
    let turned: Turned;
    try {
      turned = await untilRedisAnswers(() => turnAttempts(db, this.clientToken, request, delivery, delivery));
    } catch (err) {
      this.deps.log.warn({ err, client_token: this.clientToken }, 'attempts could not be settled or taken');
      for (const { resolve } of extensions) resolve(true);
      // What was sent is sent again after its lease; what was not is owed all the same.
      const lost: Outcome = { state: 'waiting', reason: 'leased', inMs: delivery.leaseMs, failures: 0 };
      for (const { work } of [...answered, ...wanted]) work.end(lost);
      this.#asking.full(this.#underWay > 0, this.#isLiveWaiting);
      return;
    }
    for (const [i, { resolve }] of extensions.entries()) resolve(turned.extended[i] === true);
    for (const [i, one] of answered.entries()) this.#conclude(one, turned.settled[i] as Settled);
    const back = wanted.filter(({ work }, i) => this.#begin(work, turned.takes[i] as Take) === 'waits');
    this.#asking.answered(wanted.length, back.length);
    for (const { work } of back.reverse()) this.#waiting[work.delivery.priority].unshift(work);
    if (turned.wakeCatchUp) this.deps.catchUps.signal(this.clientToken);
  }

  /** As many as may find a place. @param places of attempts that have ended */
  #pick(places: number): { work: Work; share: boolean }[] {
    if (this.#closed) return [];
    const most = this.#asking.most(places);
    const { live, backfill } = this.#waiting;
    const picked: { work: Work; share: boolean }[] = [];
    while (picked.length < most) {
      const isBackfillsTurn = backfill.length > 0 && (live.length === 0 || this.#picks % backfillTurn === 0);
      const work = isBackfillsTurn ? backfill.shift() : live.shift();
      if (work === undefined) break;
      if (live.length + backfill.length > 0) this.#picks++;
      picked.push({ work, share: isBackfillsTurn && live.length > 0 });
    }
    return picked;
  }

  /** What a take answered. @returns `waits` where the work keeps its turn in the queue */
  #begin(work: Work, take: Take): 'waits' | undefined {
    switch (take.kind) {
      case 'taken':
        this.start(work, take);
        return undefined;
      case 'gone':
        work.end({
          state: endedState(take.state),
          ...(take.last?.status !== undefined && { status: take.last.status }),
          ...(take.last && { milliseconds: take.last.milliseconds }),
        });
        return undefined;
      case 'reclaim':
        void this.#claimAgain(work);
        return undefined;
      case 'refused':
        return this.#refused(work, take);
    }
  }

  #refused(
    work: Work,
    { reason, inMs, failures = 0, last }: Extract<Take, { kind: 'refused' }>,
  ): 'waits' | undefined {
    switch (reason) {
      case 'full':
        this.#asking.full(this.#underWay > 0, this.#isLiveWaiting);
        return 'waits';
      case 'rate':
        this.#asking.rate(inMs, this.#isLiveWaiting);
        return 'waits';
      case 'leased':
        // Who plans what is retried or drained looks again; the others would not hear of its end.
        if (work.mode === 'retry' || work.mode === 'drain') break;
        this.#park(work, inMs);
        return undefined;
      default:
    }
    work.end({
      state: 'waiting',
      reason,
      inMs,
      failures,
      ...(last?.status !== undefined && { status: last.status }),
      ...(last?.error !== undefined && { error: last.error }),
    });
    return undefined;
  }

  /** An earlier attempt holds its asset: whoever settles that one says so, or has died. */
  #park(work: Work, inMs: number): void {
    const pauseMs = Math.min(Math.max(inMs, 1), longestParkMs, 50 * 2 ** work.timesLeased++);
    this.#parked.set(
      work,
      setTimeout(() => this.proceed(work), pauseMs),
    );
  }

  /** What held its asset has ended. */
  proceed(work: Work): void {
    const timer = this.#parked.get(work);
    if (timer === undefined) return;
    clearTimeout(timer);
    this.#parked.delete(work);
    this.enqueue(work, true);
  }

  readonly #isLiveWaiting = (): boolean => this.#waiting.live.some(isLive);

  #conclude({ work, result, target }: Answered, settled: Settled): void {
    const { notificationId, platformId, priority } = work.delivery;
    this.#tell(work, result, settled);
    const status = result.status === undefined ? {} : { status: result.status };
    switch (settled.outcome) {
      case 'delivered':
      case 'failed':
        work.end({ state: settled.outcome, ...status, milliseconds: Math.round(result.milliseconds) });
        break;
      case 'gone':
        void this.#endGone(work, result);
        break;
      case 'retry':
        work.end({
          state: 'waiting',
          reason: 'retry',
          inMs: settled.inMs,
          failures: settled.failures,
          ...status,
          ...(result.error === undefined ? {} : { error: result.error }),
          target,
        });
    }
    if (settled.next !== undefined && settled.next !== notificationId) {
      this.deps.beginNext({
        clientToken: this.clientToken,
        platformId,
        notificationId: settled.next,
        priority,
      });
    }
  }

  /** Superseded while it was sent; or Redis has gone back behind its claim, and what did not arrive is claimed again. */
  async #endGone(work: Work, result: PostResult): Promise<void> {
    if (result.ok || work.delivery.event === undefined) work.end({ state: 'superseded' });
    else this.enqueue(work, true);
  }

  async #claimAgain(work: Work): Promise<void> {
    const { event } = work.delivery;
    if (event === undefined) {
      work.end({ state: 'unknown' });
      return;
    }
    try {
      const claim = await claimAgain(this.deps.db, { ...event, lookedUpClaim: event.claim - 1 });
      if (claim.kind === 'claimed') work.end({ state: 'waiting', reason: 'not_due', inMs: 0, failures: 0 });
      else if (claim.kind === 'ended') work.end({ state: endedState(claim.state) });
      else work.end({ state: claim.kind === 'not_needed' ? 'not_needed' : 'unknown' });
    } catch (err) {
      this.deps.log.error({ err, client_token: this.clientToken }, 'a lost claim could not be made again');
      work.end({ state: 'waiting', reason: 'leased', inMs: longestParkMs, failures: 0 });
    }
  }

  #tell(work: Work, result: PostResult, settled: Settled): void {
    const { deps, clientToken } = this;
    const { outcome, failures } = settled;
    if (!result.ok) {
      const { status, error } = result;
      const { notificationId: notification_id } = work.delivery;
      deps.log.info(
        { client_token: clientToken, notification_id, status, error, outcome, failures },
        'attempt failed',
      );
    }
    if (outcome === 'delivered' || outcome === 'failed') deps.metrics.ended(outcome);
    if (settled.change !== undefined) tellStateChange(deps, { clientToken, ...settled.change });
  }
}

const ownFailurePauseMs = 1000;

/** Not what a drain has found. */
function isLive({ delivery, mode }: Work): boolean {
  return delivery.priority === 'live' && mode !== 'drain';
}

function endedState(state: string | undefined): Exclude<Outcome['state'], 'waiting'> {
  switch (state) {
    case 'delivered':
    case 'superseded':
    case 'not_needed':
    case 'failed':
    case 'cancelled':
      return state;
    default:
      return 'unknown';
  }
}
