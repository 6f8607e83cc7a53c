import { setTimeout as sleep } from 'node:timers/promises';
import { isOutOfMemory, isRedisUnavailable } from '../redis/connection/unavailable.js';
import type { WaitReason } from '../redis/owed/standing.js';
import {
  newNonce,
  runTurn,
  type Settled,
  type Taken,
  type Takes,
  type Turn,
  type Turned,
} from '../redis/owed/turn.js';
import type { Outcome, Waiting } from './outcome.js';
import { type Answered, conclude, type DeliveryDeps, type Sent, send } from './send.js';

/** The most assets taken, and verdicts settled, in one turn: its script must not delay Redis for others. */
export const mostPerTurn = 64;
/** A courier waits for what is due within this time. */
export const soonMs = 1000;
/** Gathers what a rate allows within this time into one turn. */
const shortestWaitMs = 20;
const redisPausesMs = { first: 50, longest: 500, full: 1000 };
const restsMs = { first: 1000, longest: 20_000 };
/** A stopping process gives up the verdicts that Redis does not take within this time. */
const closeWithinMs = 10_000;

/** The progress of one client's courier, as Temporal shows it. */
export interface Flow {
  delivered: number;
  failed: number;
  /** Why nothing more is sent now. */
  reason: WaitReason;
}

/**
 * Sends one client's notifications from this process. It runs turns while something is in flight or due within a second: a turn
 * settles what has ended and takes the oldest due, whoever claimed it. Turns never overlap. A verdict is kept until Redis has
 * settled it, and nothing is taken meanwhile.
 */
export class Courier {
  readonly flow: Flow = { delivered: 0, failed: 0, reason: 'due' };
  #answered: Answered[] = [];
  #givenBack: { taken: Taken; inMs: number }[] = [];
  #looks: { taken: Taken; resolve(maySend: boolean): void }[] = [];
  /** Nonces of claims whose answer was lost: they may have taken something. */
  #lost: string[] = [];
  #inFlight = 0;
  #isAsked = false;
  #isTurning = false;
  #isClosed = false;
  #timer: NodeJS.Timeout | undefined;
  /** After a failure of this process the courier rests, then takes one asset at a time until an attempt is made. */
  #restMs = 0;
  #restsUntil = 0;
  readonly #onIdle: (() => void)[] = [];
  readonly #onTurned: (() => void)[] = [];

  /** @param told `outcome` hears the end of each attempt, `idle` that nothing is left to do */
  constructor(
    readonly clientToken: string,
    readonly deps: DeliveryDeps,
    readonly told: { outcome(notificationId: string, outcome: Outcome): void; idle(): void },
  ) {}

  /** How many assets a claim may take for this courier. */
  get most(): number {
    if (this.#isClosed || this.#answered.length >= mostPerTurn) return 0;
    if (this.#restMs === 0) return mostPerTurn;
    return this.#inFlight === 0 && performance.now() >= this.#restsUntil ? 1 : 0;
  }

  /** Sends what a claim has taken. */
  begin(takes: Takes): void {
    this.#goOn(takes);
    if (this.#isTurning) this.#isAsked ||= takes.nextInMs !== undefined;
    else this.#wait(takes.nextInMs);
  }

  /** Finds what a claim may have taken whose answer was lost. */
  find(nonce: string): void {
    this.#lost.push(nonce);
    this.#turnSoon();
  }

  /** Runs a turn. Resolves when the turn has ended. */
  poke(): Promise<void> {
    this.#isAsked = true;
    this.#turnSoon();
    return new Promise((resolve) => this.#onTurned.push(resolve));
  }

  /** Resolves when nothing is in flight or due within a second. */
  idle(): Promise<void> {
    return new Promise((resolve) => this.#onIdle.push(resolve));
  }

  /** Takes nothing more, and ends with the attempts under way. */
  close(): Promise<void> {
    this.#isClosed = true;
    const idle = this.idle();
    void this.poke();
    return idle;
  }

  #turnSoon(): void {
    if (this.#isTurning) return;
    this.#isTurning = true;
    clearTimeout(this.#timer);
    // Attempts that end in this turn of the event loop go into the same call.
    setImmediate(() => void this.#turnWhileNeeded());
  }

  async #turnWhileNeeded(): Promise<void> {
    let nextInMs: number | undefined;
    do nextInMs = await this.#turn();
    while (
      this.#isAsked ||
      this.#answered.length + this.#givenBack.length + this.#looks.length + this.#lost.length > 0
    );
    this.#isTurning = false;
    this.#wait(nextInMs);
  }

  /** Waits for the next attempt's end or for what is due next, whichever comes first; ends if there is neither. */
  #wait(nextInMs: number | undefined): void {
    clearTimeout(this.#timer);
    const restMs = this.#restMs === 0 ? 0 : Math.max(this.#restsUntil - performance.now(), 0);
    const inMs =
      nextInMs === undefined || this.#isClosed ? undefined : Math.max(nextInMs, restMs, shortestWaitMs);
    if (inMs !== undefined && (inMs <= soonMs || restMs > 0 || this.#inFlight > 0)) {
      this.#timer = setTimeout(() => void this.poke(), inMs);
    } else if (this.#inFlight === 0) {
      for (const resolve of this.#onIdle.splice(0)) resolve();
      this.told.idle();
    }
  }

  /** Settles and takes in one call. @returns in how many ms something is due */
  async #turn(): Promise<number | undefined> {
    this.#isAsked = false;
    const turned = this.#onTurned.splice(0);
    try {
      return await this.#settleAndTake();
    } finally {
      for (const resolve of turned) resolve();
    }
  }

  async #settleAndTake(): Promise<number | undefined> {
    const answered = this.#answered.splice(0, mostPerTurn);
    const givenBack = this.#givenBack.splice(0);
    const looks = this.#looks.splice(0);
    const [lost] = this.#lost.splice(0, 1);
    const turn: Turn = {
      nonce: lost ?? newNonce(),
      isRepeat: lost !== undefined,
      most: this.most,
      verdicts: answered.map(({ verdict }) => verdict),
      looks: looks.map(({ taken }) => taken),
      givenBack,
    };
    const turned = await this.#ask(turn);
    // Without an answer nothing is sent: after the lease the asset is due again.
    for (const [i, { resolve }] of looks.entries()) resolve(turned?.maySend[i] ?? false);
    if (turned === undefined) {
      // What was sent is sent again after its lease.
      for (const { verdict } of answered) this.#tellWaiting(verdict.taken, 'in_flight');
      return undefined;
    }
    for (const [i, one] of answered.entries()) {
      const outcome = conclude(this.deps, this.clientToken, one, turned.settled[i] as Settled);
      if (outcome.state === 'delivered') this.flow.delivered++;
      else if (!one.result.ok) this.flow.failed++;
      this.told.outcome(one.verdict.taken.notificationId, outcome);
    }
    this.#goOn(turned);
    return turned.nextInMs;
  }

  /** Repeats a turn until Redis answers. @returns undefined if Redis refuses it for good, or the process ends */
  async #ask(turn: Turn): Promise<Turned | undefined> {
    const { db, settings, log } = this.deps;
    const hasSent =
      (turn.verdicts?.length ?? 0) + (turn.givenBack?.length ?? 0) + (turn.looks?.length ?? 0) > 0;
    let isFull = false;
    let closedAt: number | undefined;
    for (let pauseMs = redisPausesMs.first; ; pauseMs = Math.min(2 * pauseMs, redisPausesMs.longest)) {
      try {
        if (!isFull) return await runTurn(db, this.clientToken, turn, settings);
        // Redis has no memory left: it settles, and nothing is taken for a while.
        const settled = await runTurn(db, this.clientToken, { ...turn, most: 0 }, settings, 'settle');
        return { ...settled, nextInMs: Math.max(settled.nextInMs ?? 0, redisPausesMs.full) };
      } catch (err) {
        if (this.#isClosed) closedAt ??= performance.now();
        const isOver = closedAt !== undefined && performance.now() - closedAt > closeWithinMs;
        if (isOver || !isRedisUnavailable(err)) {
          log.warn({ err, client_token: this.clientToken }, 'attempts could not be settled or taken');
          return undefined;
        }
        if (isOutOfMemory(err) && hasSent && !isFull) {
          isFull = true;
          continue;
        }
        // Nothing was sent: whoever pokes next asks again.
        if (!hasSent && !turn.isRepeat && (isOutOfMemory(err) || this.#isClosed)) return undefined;
        turn.isRepeat = true;
        await sleep(pauseMs);
      }
    }
  }

  #goOn({ taken, reason, wakeCatchUp }: Takes): void {
    this.flow.reason = reason;
    if (wakeCatchUp) this.deps.catchUps.signal(this.clientToken);
    for (const one of taken) void this.#attempt(one);
  }

  async #attempt(taken: Taken): Promise<void> {
    this.#inFlight++;
    const sent = await send(this.deps, this.clientToken, taken, () => this.#maySend(taken));
    this.#inFlight--;
    if (sent.kind === 'answered') {
      this.#restMs = 0;
      this.#answered.push(sent);
    } else if (sent.kind === 'own_failure') this.#rest(taken, sent);
    else this.#tellWaiting(taken, 'due');
    this.#turnSoon();
  }

  #maySend(taken: Taken): Promise<boolean> {
    return new Promise((resolve) => {
      this.#looks.push({ taken, resolve });
      this.#turnSoon();
    });
  }

  #rest(taken: Taken, { cause, err }: Extract<Sent, { kind: 'own_failure' }>): void {
    if (performance.now() >= this.#restsUntil) {
      this.#restMs = Math.min(Math.max(2 * this.#restMs, restsMs.first), restsMs.longest);
      this.#restsUntil = performance.now() + this.#restMs;
      const names = { client_token: this.clientToken, notification_id: taken.notificationId };
      this.deps.log.warn(
        { err, cause, ...names, pause_ms: this.#restMs },
        'an attempt could not be made because of an own failure: the next one follows after a pause',
      );
    }
    const inMs = Math.max(this.#restsUntil - performance.now(), 0);
    this.#givenBack.push({ taken, inMs });
    this.#tellWaiting(taken, 'own_failure', inMs);
  }

  #tellWaiting({ notificationId }: Taken, reason: Waiting['reason'], inMs = 0): void {
    this.told.outcome(notificationId, { state: 'waiting', reason, at: Date.now() + inMs, failures: 0 });
  }
}
