import { setTimeout as sleep } from 'node:timers/promises';
import { isRedisUnavailable } from '../redis/connection/unavailable.js';
import {
  newNonce,
  runTurn,
  type Settled,
  type Taken,
  type Takes,
  type Turn,
  type Turned,
  type Verdict,
} from '../redis/owed/turn.js';
import { conclude, type OwnFailure, type SendDeps, send } from './send.js';

/** The most assets taken, and verdicts settled, in one turn: its script must not delay Redis for others. */
const mostPerTurn = 64;
/** A client whose next asset is due within this time is not idle. */
export const soonMs = 1000;
/** The most nonces of lost calls that are kept. Attempts of further calls become due when their leases end. */
const maxLost = 100;
/** Gathers what a rate allows within this time into one turn. */
const shortestWaitMs = 20;
const redisPausesMs = { first: 50, longest: 500 };
const restsMs = { first: 1000, longest: 20_000 };
/** A stopping process gives up the verdicts that Redis does not take within this time. */
const closeWithinMs = 10_000;

/**
 * Sends one client's notifications from this process. It runs turns while something is in flight or due within the time of a lease:
 * a turn settles what has ended and takes the oldest due, whoever claimed it. Turns never overlap. A verdict is kept until Redis has
 * settled it, and nothing is taken meanwhile.
 */
class Courier {
  #verdicts: Verdict[] = [];
  #givenBack: { taken: Taken; inMs: number }[] = [];
  /**
   * Nonces of calls whose answers were lost, and how many turns have named each. Two turns do: Redis may run a lost call after
   * the first of them.
   */
  readonly #lost = new Map<string, number>();
  #inFlight = 0;
  #isAsked = false;
  #isTurning = false;
  #isClosed = false;
  #timer: NodeJS.Timeout | undefined;
  /** After a failure of this process the courier rests, then takes one asset at a time until an attempt is made. */
  #restMs = 0;
  #restsUntil = 0;
  readonly #onIdle = new Set<(isIdle: boolean) => void>();

  /** @param onDone is called when nothing is left to do */
  constructor(
    readonly clientToken: string,
    readonly deps: SendDeps,
    readonly onDone: () => void,
  ) {}

  /** How many assets a claim may take for this courier. */
  get takesAtMost(): number {
    if (this.#isClosed || this.#verdicts.length >= mostPerTurn) return 0;
    if (this.#restMs === 0) return mostPerTurn;
    return this.#inFlight === 0 && performance.now() >= this.#restsUntil ? 1 : 0;
  }

  /** Sends what a claim has taken. */
  begin(takes: Takes): void {
    this.#goOn(takes);
    if (this.#isTurning) this.#isAsked ||= takes.nextInMs !== undefined;
    else this.#wait(takes.nextInMs);
  }

  /** Makes due again what a claim may have taken whose answer was lost. */
  noteLost(nonce: string): void {
    if (this.#lost.size < maxLost) this.#lost.set(nonce, 0);
    this.#turnSoon();
  }

  /** Runs a turn. Resolves to true when nothing is in flight or due within a second, or to false after this time. */
  idle(withinMs: number): Promise<boolean> {
    this.#turnSoon();
    return new Promise((resolve) => {
      const end = (isIdle: boolean) => {
        clearTimeout(timer);
        this.#onIdle.delete(end);
        resolve(isIdle);
      };
      const timer = setTimeout(end, withinMs, false);
      this.#onIdle.add(end);
    });
  }

  /** Takes nothing more, and ends with the attempts under way. */
  close(): Promise<void> {
    this.#isClosed = true;
    const idle = new Promise<void>((resolve) => this.#onIdle.add(() => resolve()));
    this.#turnSoon();
    return idle;
  }

  #turnSoon(): void {
    this.#isAsked = true;
    if (this.#isTurning) return;
    this.#isTurning = true;
    clearTimeout(this.#timer);
    // Attempts that end in this round of the event loop go into the same call.
    setImmediate(() => void this.#turnWhileNeeded());
  }

  async #turnWhileNeeded(): Promise<void> {
    let nextInMs: number | undefined;
    do {
      this.#isAsked = false;
      nextInMs = await this.#settleAndTake();
    } while (this.#isAsked || this.#verdicts.length + this.#givenBack.length > 0);
    this.#isTurning = false;
    this.#wait(nextInMs);
  }

  /**
   * Waits for the next attempt's end or for the next due asset, whichever comes first; ends if there is neither. The courier times
   * retries within the time of a lease, workflows and catch-up the later ones.
   */
  #wait(dueInMs: number | undefined): void {
    clearTimeout(this.#timer);
    // A turn could take nothing before an attempt ends.
    if (this.#inFlight > 0 && this.takesAtMost === 0) return;
    const nextInMs = this.#lost.size > 0 ? Math.min(dueInMs ?? soonMs, soonMs) : dueInMs;
    const restMs = this.#restMs === 0 ? 0 : Math.max(this.#restsUntil - performance.now(), 0);
    const inMs =
      nextInMs === undefined || this.#isClosed ? undefined : Math.max(nextInMs, restMs, shortestWaitMs);
    const isBusy = this.#inFlight > 0 || restMs > 0;
    const isAwaited = inMs !== undefined && (inMs <= this.deps.settings.leaseMs || isBusy);
    if (isAwaited) this.#timer = setTimeout(() => this.#turnSoon(), inMs);
    if (this.#inFlight > 0 || (isAwaited && (inMs <= soonMs || isBusy))) return;
    for (const end of this.#onIdle) end(true);
    if (!isAwaited) this.onDone();
  }

  /** Settles and takes in one call. @returns in how many ms something is due */
  async #settleAndTake(): Promise<number | undefined> {
    const verdicts = this.#verdicts.splice(0, mostPerTurn);
    const givenBack = this.#givenBack.splice(0);
    const { settings } = this.deps;
    const turned = await this.#ask({
      settings,
      nonce: newNonce(),
      most: this.takesAtMost,
      verdicts,
      givenBack,
    });
    // The attempts that were not settled are made again after their leases.
    if (turned === undefined) return undefined;
    for (const [i, verdict] of verdicts.entries()) {
      conclude(this.deps, this.clientToken, verdict, turned.settled[i] as Settled);
    }
    this.#goOn(turned);
    return turned.nextInMs;
  }

  /** Repeats a turn until Redis answers. @returns undefined if Redis refuses it for good, or the process ends */
  async #ask(turn: Turn): Promise<Turned | undefined> {
    const { db, log } = this.deps;
    const { verdicts = [], givenBack = [] } = turn;
    const giveUpAt = performance.now() + closeWithinMs;
    for (let pauseMs = redisPausesMs.first; ; pauseMs = Math.min(2 * pauseMs, redisPausesMs.longest)) {
      if (this.#isClosed && verdicts.length + givenBack.length === 0) return undefined;
      const lost = [...this.#lost.keys()];
      try {
        const turned = await runTurn(db, this.clientToken, { ...turn, lost });
        for (const nonce of lost) {
          const named = (this.#lost.get(nonce) ?? 0) + 1;
          if (named === 1) this.#lost.set(nonce, named);
          else this.#lost.delete(nonce);
        }
        return turned;
      } catch (err) {
        const isOver = this.#isClosed && performance.now() > giveUpAt;
        if (isOver || !isRedisUnavailable(err)) {
          log.warn({ err, client_token: this.clientToken }, 'attempts could not be settled or taken');
          return undefined;
        }
        if (turn.most > 0) this.#lost.set(turn.nonce, 0);
        // The next turn takes, once this one is settled.
        turn.most = 0;
        await sleep(pauseMs);
      }
    }
  }

  #goOn({ taken, wakeCatchUp }: Takes): void {
    if (wakeCatchUp) this.deps.catchUps.signal(this.clientToken);
    for (const one of taken) void this.#attempt(one);
  }

  async #attempt(taken: Taken): Promise<void> {
    this.#inFlight++;
    const sent = await send(this.deps, this.clientToken, taken);
    this.#inFlight--;
    if (sent === undefined) {
      this.#givenBack.push({ taken, inMs: 0 });
      // One asset at a time looks for a connection, as after an own failure.
      this.#restMs ||= 1;
    } else if ('cause' in sent) this.#rest(taken, sent);
    else {
      this.#restMs = 0;
      this.#verdicts.push(sent);
    }
    this.#turnSoon();
  }

  #rest(taken: Taken, { cause, err }: OwnFailure): void {
    if (performance.now() >= this.#restsUntil) {
      this.#restMs = Math.min(Math.max(2 * this.#restMs, restsMs.first), restsMs.longest);
      this.#restsUntil = performance.now() + this.#restMs;
      const names = { client_token: this.clientToken, notification_id: taken.notificationId };
      this.deps.log.warn(
        { err, cause, ...names, pause_ms: this.#restMs },
        'an attempt could not be made because of an own failure: the next one follows after a pause',
      );
    }
    this.#givenBack.push({ taken, inMs: Math.max(this.#restsUntil - performance.now(), 0) });
  }
}

/** Keeps a courier for each client with something to send, and passes calls on to it. */
export class Couriers {
  readonly #couriers = new Map<string, Courier>();
  #closed: Promise<unknown> | undefined;

  constructor(readonly deps: SendDeps) {}

  /** Returns how many assets a claim may take for a client; 0 once this process ends. */
  takesAtMost(clientToken: string): number {
    if (this.isClosed) return 0;
    return this.#couriers.get(clientToken)?.takesAtMost ?? mostPerTurn;
  }

  begin(clientToken: string, takes: Takes): void {
    if (takes.taken.length === 0 && takes.nextInMs === undefined && !takes.wakeCatchUp) return;
    this.#courierFor(clientToken).begin(takes);
  }

  noteLost(clientToken: string, nonce: string): void {
    this.#courierFor(clientToken).noteLost(nonce);
  }

  idle(clientToken: string, withinMs: number): Promise<boolean> {
    return this.#courierFor(clientToken).idle(withinMs);
  }

  /** True once this process takes nothing more. */
  get isClosed(): boolean {
    return this.#closed !== undefined;
  }

  /** Stops taking and waits for the attempts under way. What is due waits in Redis for other processes. */
  async close(): Promise<void> {
    this.#closed ??= Promise.all([...this.#couriers.values()].map((courier) => courier.close()));
    await this.#closed;
  }

  #courierFor(clientToken: string): Courier {
    const known = this.#couriers.get(clientToken);
    if (known !== undefined) return known;
    const courier = new Courier(clientToken, this.deps, () => {
      if (this.#couriers.get(clientToken) === courier) this.#couriers.delete(clientToken);
    });
    this.#couriers.set(clientToken, courier);
    if (this.isClosed) void courier.close();
    return courier;
  }
}
