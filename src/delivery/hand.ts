/** Decides what this process does next for one client. It reads no clock and calls nothing: hands.ts does what it says. */
import { newNonce, type Taken, type Takes, type Turn, type Verdict } from '../redis/owed/turn.js';

/** The most assets taken, and verdicts settled, in one turn: its script must not delay Redis for others. */
const mostPerTurn = 64;
/** A client whose next asset is due within this time is not quiet. */
export const soonMs = 1000;
/** The most nonces of lost calls that are kept. Attempts of further calls become due when their leases end. */
const maxLost = 100;
/** Gathers what a rate allows within this time into one turn. */
const shortestWaitMs = 20;
const redisPausesMs = { first: 50, longest: 500 };
const restsMs = { first: 1000, longest: 20_000 };
/** A stopping process gives up the verdicts that Redis does not take within this time. */
const closeWithinMs = 10_000;
/** Redis may run a call so much later than it was made. */
const callMs = 1500;

interface Made {
  nonce: string;
  most: number;
  madeAt: number;
}

export interface ClaimCall<Event> extends Made {
  kind: 'claim';
  events: Event[];
}

export interface TurnCall extends Made, Required<Pick<Turn, 'verdicts' | 'givenBack' | 'lost'>> {
  kind: 'turn';
}

/** How an attempt ended; `crowded`: no connection was free, `own`: this process could not make it. */
export type Attempted = Verdict | 'crowded' | 'own';

/**
 * What one process knows of one client: the events that wait for their claim, what it has taken and not settled, and the calls whose
 * answers were lost. An event, the end of an attempt, a poke and a lost answer wait for the same next call, and calls never overlap.
 * Times are ms.
 *
 * | state | the next call |
 * |---|---|
 * | `idle` | claims, or settles and takes; in turn if there is both |
 * | `calling` | waits for the answer of the last |
 * | `refused` | Redis did not answer: a turn that takes nothing is repeated, with pauses; nothing is claimed before its answer |
 */
export class Hand<Event> {
  #state: 'idle' | 'calling' | 'refused' = 'idle';
  #arrivals: Event[] = [];
  #verdicts: Verdict[] = [];
  #givenBack: TurnCall['givenBack'][number][] = [];
  /** Each attempt that is not settled, with the time of the call that took it, the oldest first. */
  readonly #held = new Map<Taken, number>();
  /** Calls whose answers were lost, with their times. Redis may run them late, so turns name them until a second has passed. */
  readonly #lost = new Map<string, number>();
  #posts = 0;
  #isAsked = false;
  #claimedLast = false;
  #dueAt = Infinity;
  #repeatAt = 0;
  #pauseMs = 0;
  /** After a failure of this process the hand rests, then takes one asset at a time until an attempt is made. */
  #restMs = 0;
  #restsUntil = 0;
  #closedAt = Infinity;

  /** @param leaseMs undefined: this process sends nothing */
  constructor(readonly leaseMs: number | undefined) {}

  arrive(event: Event): void {
    this.#arrivals.push(event);
  }

  poke(): void {
    this.#isAsked = true;
  }

  close(now: number): void {
    this.#closedAt = Math.min(this.#closedAt, now);
  }

  /** Returns the call to make now, if there is one. @param room how many events it may claim */
  next(now: number, room: number): ClaimCall<Event> | TurnCall | undefined {
    if (this.#state === 'calling') return undefined;
    const wantsTurn = this.#wantsTurn(now);
    const claims = this.#state === 'idle' ? Math.min(room, this.#arrivals.length) : 0;
    if (!wantsTurn && claims === 0) return undefined;
    const made = { nonce: newNonce(), most: this.#mayTake(now), madeAt: now };
    this.#state = 'calling';
    this.#claimedLast = claims > 0 && !(wantsTurn && this.#claimedLast);
    if (this.#claimedLast) return { kind: 'claim', ...made, events: this.#arrivals.splice(0, claims) };
    this.#isAsked = false;
    const verdicts = this.#verdicts.splice(0, mostPerTurn);
    const givenBack = this.#givenBack.splice(0);
    return { kind: 'turn', ...made, verdicts, givenBack, lost: [...this.#lost.keys()] };
  }

  #wantsTurn(now: number): boolean {
    if (this.#state === 'refused') return now >= this.#repeatAt;
    if (this.#verdicts.length + this.#givenBack.length > 0) return true;
    if (this.#isFull(now)) return false;
    return this.#isAsked || now >= this.#dueAgainAt(now);
  }

  /** How many assets a call may take now. */
  #mayTake(now: number): number {
    if (this.#state !== 'idle' || this.#takesNothing(now)) return 0;
    // Redis was unavailable, or this process paused: Redis would give again what was answered and is not settled yet.
    const [oldestAt = now] = this.#held.values();
    if (now - oldestAt > (this.leaseMs ?? 0) - callMs) return 0;
    if (this.#restMs === 0) return mostPerTurn;
    return this.#posts === 0 && now >= this.#restsUntil ? 1 : 0;
  }

  #takesNothing(now: number): boolean {
    return this.leaseMs === undefined || now >= this.#closedAt;
  }

  /** A turn could take nothing before an attempt ends. */
  #isFull(now: number): boolean {
    return this.#takesNothing(now) || (this.#posts > 0 && this.#mayTake(now) === 0);
  }

  /** Takes in the answer of a call. Returns what to send. */
  answered(call: ClaimCall<Event> | TurnCall, { taken, nextInMs }: Takes, now: number): Taken[] {
    this.#state = 'idle';
    this.#pauseMs = 0;
    if (call.kind === 'turn') {
      this.#letGo(call);
      for (const nonce of call.lost)
        if (call.madeAt - (this.#lost.get(nonce) ?? 0) >= soonMs) this.#lost.delete(nonce);
    }
    for (const one of taken) this.#held.set(one, call.madeAt);
    this.#posts += taken.length;
    this.#dueAt = nextInMs === undefined ? Infinity : now + Math.max(nextInMs, shortestWaitMs);
    return taken;
  }

  /**
   * Takes in that a call was not answered, or (`isBroken`) never will be.
   * @returns the events that are refused with it, and whether attempts are given up, which are made again after their leases
   */
  failed(call: ClaimCall<Event> | TurnCall, isBroken: boolean, now: number) {
    this.#state = 'idle';
    if (!isBroken && call.most > 0 && this.#lost.size < maxLost) this.#lost.set(call.nonce, now);
    if (call.kind === 'claim') {
      if (this.#lost.size > 0) this.#refuse(now);
      return { refused: call.events, isGivenUp: false };
    }
    if (isBroken || now > this.#closedAt + closeWithinMs) {
      this.#letGo(call);
      this.#dueAt = Infinity;
      return { refused: [], isGivenUp: true };
    }
    this.#verdicts.unshift(...call.verdicts);
    this.#givenBack.unshift(...call.givenBack);
    // One lost answer refuses no event.
    const refused = this.#pauseMs > 0 ? this.#arrivals.splice(0) : [];
    this.#refuse(now);
    return { refused, isGivenUp: false };
  }

  #letGo({ verdicts, givenBack }: TurnCall): void {
    for (const { taken } of [...verdicts, ...givenBack]) this.#held.delete(taken);
  }

  #refuse(now: number): void {
    if (now >= this.#closedAt && this.#verdicts.length + this.#givenBack.length === 0) return;
    this.#state = 'refused';
    this.#pauseMs = Math.min(Math.max(2 * this.#pauseMs, redisPausesMs.first), redisPausesMs.longest);
    this.#repeatAt = now + this.#pauseMs;
  }

  /** Takes in the end of an attempt. Returns for how long the hand rests now (ms), unless it does not or already did. */
  attempted(taken: Taken, how: Attempted, now: number): number | undefined {
    this.#posts--;
    this.#isAsked = true;
    if (typeof how === 'object') {
      this.#restMs = 0;
      this.#verdicts.push(how);
      return undefined;
    }
    if (how === 'crowded') {
      // One asset at a time looks for a connection, as after an own failure.
      this.#restMs ||= 1;
      this.#givenBack.push({ taken, inMs: 0 });
      return undefined;
    }
    const begins = now >= this.#restsUntil;
    if (begins) {
      this.#restMs = Math.min(Math.max(2 * this.#restMs, restsMs.first), restsMs.longest);
      this.#restsUntil = now + this.#restMs;
    }
    this.#givenBack.push({ taken, inMs: this.#restsUntil - now });
    return begins ? this.#restMs : undefined;
  }

  /** When to ask for the next call if nothing comes in before; Infinity: nothing is due within the time of a lease. */
  wakesAt(now: number): number {
    if (this.#state === 'calling') return Infinity;
    if (this.#state === 'refused') return this.#repeatAt;
    return this.#isFull(now) ? Infinity : this.#dueAgainAt(now);
  }

  /** The hand times retries within the time of a lease; workflows and catch-up time the later ones. */
  #dueAgainAt(now: number): number {
    const [lostAt = Infinity] = this.#lost.values();
    const restsUntil = this.#restMs === 0 ? 0 : this.#restsUntil;
    const at = Math.max(Math.min(this.#dueAt, lostAt + soonMs), restsUntil);
    const isBusy = this.#posts > 0 || restsUntil > now;
    return isBusy || at <= now + (this.leaseMs ?? 0) ? at : Infinity;
  }

  /** Whether `next` made no claim only for want of room. */
  get wantsRoom(): boolean {
    return this.#state === 'idle' && this.#arrivals.length > 0;
  }

  /** Whether nothing is under way or due within a second. */
  isIdle(now: number): boolean {
    const isIdle = this.#state === 'idle' && this.#posts + this.#arrivals.length === 0;
    if (!isIdle || this.#wantsTurn(now)) return false;
    const at = this.wakesAt(now);
    return at === Infinity || (at > now + soonMs && now >= this.#restsUntil);
  }
}
