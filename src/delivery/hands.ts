/** Accepts events, and does what the hands decide: claims and turns, attempts, timers. */
import { shared } from '../constants.js';
import type { OwnFailureCause } from '../metrics.js';
import { isRedisUnavailable } from '../redis/connection/unavailable.js';
import { type ArrivedEvent, type Claim, claimEvents, claimsPerScript } from '../redis/owed/claim.js';
import { announceClaims } from '../redis/owed/owedClients.js';
import { runTurn, type Settled, type Taken, type Takes } from '../redis/owed/turn.js';
import { type ClaimCall, Hand, type TurnCall } from './hand.js';
import type { Outbox } from './outbox.js';
import { conclude, type SendDeps, send } from './send.js';

export interface HandsDeps extends SendDeps {
  /** False: this process only claims. */
  sends: boolean;
  outbox: Pick<Outbox, 'reserve' | 'delivered'>;
  minutes: { count(cause: string): unknown };
}

/** Thrown when this process holds as many events as it may. The event was not accepted. */
export class TooBusy extends Error {
  override name = 'TooBusy';
}

/** With more events Redis answers more slowly than events arrive. */
const maxUnderWay = 10_000;

/** A client has as many places. Without this bound batches wait three times as long (docs/benchmarks/decisions.md). */
const claimsPerRound = 16;
/** Events that need no delivery let the next round claim as many more, up to this number. */
const maxExtraClaims = 500;

/** A claim, and the promise that the claim is on Redis' disk. */
interface Decided {
  claim: Claim;
  safe: Promise<unknown>;
}

interface Arrival {
  key: string;
  event: ArrivedEvent;
  resolve(decided: Decided): void;
  reject(err: unknown): void;
}

interface Client {
  clientToken: string;
  hand: Hand<Arrival>;
  timer?: NodeJS.Timeout | undefined;
  pausedBy?: OwnFailureCause | undefined;
  onIdle: Set<(isIdle: boolean) => void>;
}

/**
 * Keeps a hand for each client with something to do. No client waits for another client's call. A round of the event loop claims only
 * as many events as it can deliver, so intake never outruns delivery.
 */
export class Hands {
  /** Events whose claim was not begun, by id. */
  readonly #joinable = new Map<string, Promise<Claim>>();
  #underWay = 0;
  readonly #clients = new Map<string, Client>();
  /** Clients whose hands may have a call to make in the next round; those that had no room come first. */
  #ready = new Set<Client>();
  #isScheduled = false;
  /** Events claimed in the last round that need no delivery. */
  #undelivered = 0;
  #closed: Promise<unknown> | undefined;

  constructor(readonly deps: HandsDeps) {}

  /**
   * Resolves once the decision about an event is on Redis' disk. The same event, given again before its claim begins, gets the same
   * answer; later its asset may have been forgotten meanwhile, and Redis decides again.
   * @throws TooBusy, and errors of Redis: the event may then have been claimed, and can be sent again
   */
  accept(event: ArrivedEvent): Promise<Claim> {
    const key = `${event.notificationId} ${event.notify}`;
    const known = this.#joinable.get(key);
    if (known !== undefined) return known;
    if (this.#underWay >= maxUnderWay)
      return Promise.reject(new TooBusy('more events wait for Redis than this process holds'));
    const accepted = this.#accept(event, key);
    this.#joinable.set(key, accepted);
    return accepted;
  }

  /** Yields the cause for each client whose attempts this process pauses after an own failure. */
  *pauses(): Generator<OwnFailureCause> {
    for (const { pausedBy } of this.#clients.values()) if (pausedBy !== undefined) yield pausedBy;
  }

  underWay(): number {
    return this.#underWay;
  }

  async #accept({ notify, ...event }: ArrivedEvent, key: string): Promise<Claim> {
    this.#underWay++;
    let reservation = notify ? this.deps.outbox.reserve(event) : undefined;
    const group = reservation === undefined ? shared.withoutWorkflow : reservation.group;
    const decided = new Promise<Decided>((resolve, reject) => {
      const client = this.#clientOf(event.clientToken);
      client.hand.arrive({ key, event: { ...event, notify, group }, resolve, reject });
      this.#act(client);
    });
    try {
      const { claim, safe } = await decided;
      reservation?.fill(
        claim.kind === 'claimed' ? { ...event, ...claim.renewed, claim: claim.claim } : undefined,
      );
      reservation = undefined;
      // Any answer relies on a claim that may not be on disk yet: this event's, or an earlier one's.
      await safe;
      return claim;
    } finally {
      reservation?.fill(undefined);
      this.#underWay--;
      this.#joinable.delete(key);
    }
  }

  /** Sends what is due. Resolves to true when nothing is in flight or due within a second, or to false after this time. */
  idle(clientToken: string, withinMs: number): Promise<boolean> {
    const client = this.#clientOf(clientToken);
    client.hand.poke();
    this.#act(client);
    return new Promise((resolve) => {
      const end = (isIdle: boolean) => {
        clearTimeout(timer);
        client.onIdle.delete(end);
        resolve(isIdle);
      };
      const timer = setTimeout(end, withinMs, false);
      client.onIdle.add(end);
    });
  }

  /** True once this process takes nothing more. */
  get isClosed(): boolean {
    return this.#closed !== undefined;
  }

  /** Stops taking and waits for the attempts under way. What is due waits in Redis for other processes. */
  async close(): Promise<void> {
    this.#closed ??= Promise.all(
      [...this.#clients.values()].map((client) => {
        client.hand.close(performance.now());
        this.#act(client);
        return new Promise((resolve) => client.onIdle.add(resolve));
      }),
    );
    await this.#closed;
  }

  #clientOf(clientToken: string): Client {
    const known = this.#clients.get(clientToken);
    if (known !== undefined) return known;
    const { sends, db } = this.deps;
    const hand = new Hand<Arrival>(sends ? db.settings.leaseMs : undefined);
    if (this.isClosed) hand.close(performance.now());
    const client: Client = { clientToken, hand, onIdle: new Set() };
    this.#clients.set(clientToken, client);
    return client;
  }

  /** Lets a hand act in the next round: what happens in this one goes into the same call. */
  #act(client: Client): void {
    this.#ready.add(client);
    if (!this.#isScheduled) setImmediate(() => this.#round());
    this.#isScheduled = true;
  }

  #round(): void {
    this.#isScheduled = false;
    let room = claimsPerRound + this.#undelivered;
    this.#undelivered = 0;
    const ready = this.#ready;
    this.#ready = new Set();
    for (const client of ready) {
      const call = client.hand.next(performance.now(), Math.min(room, claimsPerScript));
      if (call === undefined) this.#rest(client);
      else if (call.kind === 'turn') void this.#settle(client, call);
      else {
        room -= call.events.length;
        void this.#claim(client, call);
      }
    }
  }

  /** Waits for the hand's time, or forgets the hand if it has nothing to do. */
  #rest(client: Client): void {
    const { clientToken, hand, onIdle } = client;
    const now = performance.now();
    clearTimeout(client.timer);
    const at = hand.wakesAt(now);
    if (at < Infinity) client.timer = setTimeout(() => this.#act(client), Math.ceil(at - now));
    if (!hand.isIdle(now)) {
      if (hand.wantsRoom) this.#act(client);
      return;
    }
    for (const end of onIdle) end(true);
    if (at === Infinity) this.#clients.delete(clientToken);
  }

  async #claim(client: Client, call: ClaimCall<Arrival>): Promise<void> {
    const { db, metrics } = this.deps;
    const { clientToken, hand } = client;
    try {
      const isAnnounced = await announceClaims(db, clientToken);
      for (const { key } of call.events) this.#joinable.delete(key);
      const events = call.events.map(({ event }) => event);
      const { answer, safe } = db.durably((own) => claimEvents(own, clientToken, events, call));
      const claimed = await answer;
      // The client was created meanwhile.
      if (!isAnnounced && claimed.claims.some(({ kind }) => kind !== 'unknown_client'))
        await announceClaims(db, clientToken);
      for (const [i, { resolve }] of call.events.entries()) {
        const claim = claimed.claims[i] as Claim;
        if (claim.kind !== 'claimed') this.#undelivered = Math.min(this.#undelivered + 1, maxExtraClaims);
        else if (claim.supersedes) metrics.ended('superseded');
        resolve({ claim, safe });
      }
      this.#goOn(client, call, claimed);
    } catch (err) {
      for (const { reject } of hand.failed(call, !isRedisUnavailable(err), performance.now()).refused)
        reject(err);
    }
    this.#act(client);
  }

  async #settle(client: Client, call: TurnCall): Promise<void> {
    const { deps } = this;
    const { clientToken, hand } = client;
    try {
      const turned = await runTurn(deps.db, clientToken, call);
      for (const [i, verdict] of call.verdicts.entries()) {
        const settled = turned.settled[i] as Settled;
        conclude(deps, clientToken, verdict, settled);
        if (settled.result === 'delivered') deps.outbox.delivered(verdict);
      }
      this.#goOn(client, call, turned);
    } catch (err) {
      const { refused, isGivenUp } = hand.failed(call, !isRedisUnavailable(err), performance.now());
      for (const { reject } of refused) reject(err);
      if (isGivenUp)
        deps.log.warn({ err, client_token: clientToken }, 'attempts could not be settled or taken');
    }
    this.#act(client);
  }

  #goOn(client: Client, call: ClaimCall<Arrival> | TurnCall, takes: Takes): void {
    if (takes.wakeCatchUp) void this.deps.catchUps.wake(client.clientToken);
    for (const taken of client.hand.answered(call, takes, performance.now()))
      void this.#attempt(client, taken);
  }

  async #attempt(client: Client, taken: Taken): Promise<void> {
    const { clientToken, hand } = client;
    const sent = await send(this.deps, clientToken, taken);
    const isOwn = sent !== undefined && 'cause' in sent;
    if (isOwn) this.deps.minutes.count(sent.cause);
    if (sent !== undefined) client.pausedBy = isOwn ? sent.cause : undefined;
    const how = sent === undefined ? 'crowded' : isOwn ? 'own' : sent;
    const restMs = hand.attempted(taken, how, performance.now());
    if (restMs !== undefined && isOwn) {
      const names = { client_token: clientToken, notification_id: taken.notificationId };
      this.deps.log.warn(
        { err: sent.err, cause: sent.cause, why: sent.why, ...names, pause_ms: restMs },
        'an attempt could not be made because of an own failure: the next one follows after a pause',
      );
    }
    this.#act(client);
  }
}
