import { untilRedisAnswers } from '../redis/connection/untilRedisAnswers.js';
import type { Settled } from '../redis/owed/settle.js';
import type { Take, Taken } from '../redis/owed/take.js';
import { type Lease, type Turn, type Turned, turnAttempts } from '../redis/owed/turn.js';
import { type Answered, makeAttempt, placeUnderLease } from './attempt.js';
import { ClientQueue, longestParkMs, wantedOf } from './clientQueue.js';
import {
  claimLost,
  leasedFor,
  outcomeOfAttempt,
  outcomeOfGone,
  outcomeOfRefusal,
  tellAttempt,
  tellOwnFailure,
} from './conclude.js';
import type { DeliveryDeps } from './deps.js';
import { newNonce } from './nonce.js';
import { maxTakesPerTurn, TakePace } from './takePace.js';
import type { Delivery, Work } from './work.js';
import type { Works } from './works.js';

/**
 * The attempts of one client in this process. Each turn settles those that have ended and takes the next ones from the
 * queue, in one call of one script. Turns never overlap.
 */
export class ClientAttempts {
  readonly #queue = new ClientQueue();
  readonly #pace = new TakePace(this.#queue, () => this.#turnSoon());
  /** Attempts that the next turn settles, gives back and extends. */
  #answered: { work: Work; attempted: Answered }[] = [];
  #givenBack: (Lease & { inMs: number })[] = [];
  #extensions: (Lease & { resolve(isHeld: boolean): void })[] = [];
  #attemptsUnderWay = 0;
  #isTurning = false;
  #isClosed = false;

  /** @param onIdle called when no work waits and no attempt is under way */
  constructor(
    readonly clientToken: string,
    readonly deps: DeliveryDeps,
    readonly works: Works,
    readonly onIdle: () => void,
  ) {}

  /** Whether new work waits here, for older work or because attempts cannot be made. */
  get isQueueing(): boolean {
    return this.#queue.length > 0 || this.#pace.isBackingOff;
  }

  /** Begins the attempt of a work, or queues it. @param take the answer of the claim's script, if it asked for a place */
  add(work: Work, take?: Take): void {
    if (take?.kind === 'taken') void this.#attempt(work, take);
    else if (!this.#admit(work)) return;
    else if (take === undefined || this.#begin(work, take) === 'waits') this.#enqueue(work);
  }

  /** Gives back an asset that was taken and will not be attempted: it is due immediately. */
  giveBack(lease: Lease): void {
    this.#givenBack.push({ ...lease, inMs: 0 });
    this.#turnSoon();
  }

  /** Stops taking. Resolves once catch-up has been woken for waiting assets, which stay owed. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#leaveQueue();
  }

  async #leaveQueue(): Promise<void> {
    this.#pace.close();
    const left = this.#queue.clear();
    for (const work of left) work.end(leasedFor(longestParkMs));
    if (left.length > 0) await this.deps.catchUps.wake(this.clientToken, 0);
  }

  /** Counts a work as queued. If the queue is full, the work ends and catch-up will find it. */
  #admit(work: Work): boolean {
    if (this.works.isFullFor(work) || this.#queue.isFullFor(work)) {
      work.end({ state: 'waiting', reason: 'queue_full', inMs: 0, failures: 0 });
      void this.deps.catchUps.wake(this.clientToken, 0);
      return false;
    }
    this.works.countQueued(work);
    return true;
  }

  #enqueue(work: Work, where: 'last' | 'first' = 'last'): void {
    if (where === 'last') this.#queue.add(work);
    else this.#queue.addFirst(work);
    if (work.isLive) this.#pace.noteLiveEvent();
    this.#turnSoon();
  }

  #turnSoon(): void {
    if (this.#isTurning) return;
    this.#isTurning = true;
    // Attempts that end and works that arrive in this turn of the event loop go into the same call.
    setImmediate(() => void this.#turnWhileNeeded());
  }

  async #turnWhileNeeded(): Promise<void> {
    while (this.#needsTurn()) await this.#turn();
    this.#isTurning = false;
    // A turn that was under way when the process began to stop may have been refused places.
    if (this.#isClosed) void this.#leaveQueue();
    if (this.#attemptsUnderWay > 0 || !this.#queue.isEmpty || this.#pace.isBackingOff) return;
    this.#pace.close();
    this.onIdle();
  }

  #needsTurn(): boolean {
    return (
      this.#answered.length + this.#givenBack.length + this.#extensions.length > 0 ||
      (this.#queue.length > 0 && this.#pace.mayTake(this.#attemptsUnderWay))
    );
  }

  async #turn(): Promise<void> {
    const { db, settings, log } = this.deps;
    const answered = this.#answered.splice(0, maxTakesPerTurn);
    const givenBack = this.#givenBack.splice(0);
    const extensions = this.#extensions.splice(0);
    const picked = this.#queue.pick(this.#pace.maxTakes(answered.length, this.#attemptsUnderWay));
    const turn: Turn = {
      nonce: newNonce(),
      verdicts: answered.map(({ attempted }) => attempted.verdict),
      givenBack,
      extended: extensions,
      wanted: picked.map(wantedOf),
    };
    let turned: Turned;
    try {
      turned = await untilRedisAnswers(() => turnAttempts(db, this.clientToken, turn, settings));
    } catch (err) {
      log.warn({ err, client_token: this.clientToken }, 'attempts could not be settled or taken');
      for (const { resolve } of extensions) resolve(true);
      // Sent notifications are sent again after their lease; the others stay owed.
      for (const { work } of [...answered, ...picked]) work.end(leasedFor(settings.leaseMs));
      this.#pace.waitForPlace(this.#attemptsUnderWay > 0);
      return;
    }
    for (const [i, { resolve }] of extensions.entries()) resolve(turned.extended[i] === true);
    for (const [i, { work, attempted }] of answered.entries())
      this.#conclude(work, attempted, turned.settled[i] as Settled);
    const refused = picked.filter(({ work }, i) => this.#begin(work, turned.takes[i] as Take) === 'waits');
    this.#pace.noteAnswer(picked.length, refused.length);
    for (const { work } of refused.reverse()) this.#queue.addFirst(work);
    if (turned.wakeCatchUp) this.deps.catchUps.signal(this.clientToken);
  }

  /** Acts on the answer of a take. @returns `waits` if the work keeps its turn in the queue */
  #begin(work: Work, take: Take): 'waits' | undefined {
    switch (take.kind) {
      case 'taken':
        void this.#attempt(work, take);
        return undefined;
      case 'gone':
        work.end(outcomeOfGone(take));
        return undefined;
      case 'reclaim':
        void claimLost(this.deps, work.delivery).then((outcome) => work.end(outcome));
        return undefined;
      case 'refused':
        return this.#waitOrEnd(work, take);
    }
  }

  #waitOrEnd(work: Work, refusal: Extract<Take, { kind: 'refused' }>): 'waits' | undefined {
    const { reason, inMs } = refusal;
    if (reason === 'full') {
      this.#pace.waitForPlace(this.#attemptsUnderWay > 0);
      return 'waits';
    }
    if (reason === 'rate') {
      this.#pace.waitForRate(inMs);
      return 'waits';
    }
    // Retries and drains are planned again by their callers. Other work waits here until the other attempt ends.
    if (reason === 'leased' && work.mode !== 'retry' && work.mode !== 'drain')
      this.#queue.park(work, inMs, () => this.#unpark(work));
    else work.end(outcomeOfRefusal(refusal));
    return undefined;
  }

  /** Queues parked work again: the attempt that held its asset has ended, or the pause is over. */
  #unpark(work: Work): void {
    if (this.#queue.unpark(work)) this.#enqueue(work, 'first');
  }

  async #attempt(work: Work, take: Taken): Promise<void> {
    this.#attemptsUnderWay++;
    const { delivery, mode } = work;
    const resent = mode === 'redeliver' ? { resent: delivery.notificationId } : {};
    const lease = { platformId: delivery.platformId, token: take.token, ...resent };
    const place = await placeUnderLease(this.deps, delivery, take, () => this.#extend(lease));
    const attempted = place && (await makeAttempt(this.deps, delivery, take, place, mode === 'redeliver'));
    this.#attemptsUnderWay--;
    this.#pace.noteAttemptEnd(attempted?.kind === 'answered');
    switch (attempted?.kind) {
      case 'answered':
        this.#answered.push({ work, attempted });
        break;
      case 'own_failure': {
        const { inMs, isNew } = this.#pace.backOff();
        if (isNew) tellOwnFailure(this.deps, work, attempted, inMs);
        this.#givenBack.push({ ...lease, inMs });
        work.end({ state: 'waiting', reason: 'own_failure', inMs, failures: 0 });
        break;
      }
      case undefined: // The lease ended while it waited for its place.
        this.#pace.waitForPlace(this.#attemptsUnderWay > 0);
        work.end(leasedFor(longestParkMs));
        break;
    }
    this.#turnSoon();
  }

  /** Extends a lease with the next turn. @returns whether the attempt still held it */
  #extend(lease: Lease): Promise<boolean> {
    return new Promise((resolve) => {
      this.#extensions.push({ ...lease, resolve });
      this.#turnSoon();
    });
  }

  #conclude(work: Work, attempted: Answered, settled: Settled): void {
    const { platformId, notificationId, priority, event } = work.delivery;
    tellAttempt(this.deps, work, attempted, settled);
    // No longer owed, but not delivered either: Redis may have lost the claim, and the take will say so.
    const isLost = settled.outcome === 'gone' && !attempted.result.ok && event !== undefined;
    if (isLost) this.#enqueue(work, 'first');
    else work.end(outcomeOfAttempt(attempted, settled));
    const { next } = settled;
    if (next === undefined || next === notificationId) return;
    this.#beginNewer({ clientToken: this.clientToken, platformId, notificationId: next, priority });
  }

  /** Begins the newer notification of an asset, which waited for the end of this attempt. */
  #beginNewer(delivery: Delivery): void {
    const known = this.works.find(delivery, 'first');
    if (known !== undefined) {
      this.#unpark(known);
      return;
    }
    if (this.#isClosed) return;
    const work = this.works.add(delivery, 'first');
    if (this.#admit(work)) this.#enqueue(work, 'first');
  }
}
