/** Accepts events: claims them as they arrive, answers once the claim is safe, and begins their deliveries. */

import type { DeliverySettings } from '../config.js';
import type { Logger } from '../log.js';
import type { Db } from '../redis/connection/db.js';
import { isRedisUnavailable } from '../redis/connection/unavailable.js';
import {
  type ArrivedEvent,
  type Claim,
  type ClaimedEvent,
  claimEvents,
  claimsPerScript,
  withoutWorkflow,
} from '../redis/owed/claim.js';
import { announceClaims } from '../redis/owed/owedClients.js';
import { newNonce } from '../redis/owed/turn.js';
import type { CatchUps } from '../temporal/catchUps.js';
import type { Couriers } from './courier.js';
import type { Outbox } from './outbox.js';
import type { DeliveryMetrics } from './send.js';

/** Thrown when this process holds as many events as it may. The event was not accepted. */
export class TooBusy extends Error {
  override name = 'TooBusy';
}

interface AcceptDeps {
  db: Db;
  settings: DeliverySettings;
  outbox: Pick<Outbox, 'reserve'>;
  /** Set if a worker shares this process: deliveries begin immediately. */
  couriers?: Couriers;
  catchUps: Pick<CatchUps, 'signal'>;
  log: Logger;
  metrics: Pick<DeliveryMetrics, 'ended'>;
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
  event: ArrivedEvent;
  resolve(decided: Decided): void;
  reject(err: unknown): void;
}

/**
 * Gathers the events that arrive while a client's claim is under way into the client's next claim. No client waits for the claim of
 * another client. A round of the event loop claims only as many events as it can deliver, so intake never outruns delivery.
 */
export class Accepting {
  readonly #underWay = new Map<string, Promise<Claim>>();
  /** Events of clients that have no claim under way; the next client comes first. */
  readonly #ready = new Map<string, Arrival[]>();
  /** Events that have arrived since the claim of their client began. */
  readonly #claiming = new Map<string, Arrival[]>();
  #isScheduled = false;
  /** Events claimed in the last round that need no delivery. */
  #undelivered = 0;

  constructor(readonly deps: AcceptDeps) {}

  /**
   * Resolves once the decision about an event is on Redis' disk. The same event, given again meanwhile, gets the same answer.
   * @throws TooBusy, and errors of Redis: the event may then have been claimed, and can be sent again
   */
  accept(event: ArrivedEvent): Promise<Claim> {
    const known = this.#underWay.get(event.notificationId);
    if (known !== undefined && event.notify) return known;
    if (this.#underWay.size >= maxUnderWay) {
      return Promise.reject(new TooBusy('more events wait for Redis than this process holds'));
    }
    const accepted = this.#accept(event);
    this.#underWay.set(event.notificationId, accepted);
    return accepted;
  }

  /** Returns how many events wait for Redis. */
  underWay(): number {
    return this.#underWay.size;
  }

  async #accept(event: ArrivedEvent): Promise<Claim> {
    const reservation = event.notify ? this.deps.outbox.reserve(event) : undefined;
    let claimed: ClaimedEvent | undefined;
    try {
      const group = reservation === undefined ? withoutWorkflow : reservation.group;
      const arrived = { ...event, group };
      const { claim, safe } = await new Promise<Decided>((resolve, reject) =>
        this.#queue(event.clientToken, [{ event: arrived, resolve, reject }]),
      );
      const { notify: _, ...rest } = event;
      if (claim.kind === 'claimed') claimed = { ...rest, claim: claim.claim };
      // Any answer relies on a claim that may not be on disk yet: this event's, or an earlier one's.
      await safe;
      return claim;
    } finally {
      this.#underWay.delete(event.notificationId);
      reservation?.fill(claimed);
    }
  }

  #queue(clientToken: string, arrivals: Arrival[]): void {
    const queue = this.#claiming.get(clientToken) ?? this.#ready.get(clientToken);
    if (queue !== undefined) queue.push(...arrivals);
    else if (arrivals.length > 0) {
      this.#ready.set(clientToken, arrivals);
      this.#schedule();
    }
  }

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    setImmediate(() => this.#claimRound());
  }

  #claimRound(): void {
    this.#isScheduled = false;
    let left = claimsPerRound + this.#undelivered;
    this.#undelivered = 0;
    for (const [clientToken, queue] of this.#ready) {
      const next = queue.splice(0, Math.min(left, claimsPerScript));
      left -= next.length;
      this.#ready.delete(clientToken);
      this.#claiming.set(clientToken, queue);
      void this.#claimTogether(clientToken, next, queue);
      if (left === 0) break;
    }
    if (this.#ready.size > 0) this.#schedule();
  }

  /** @param later gathers the client's events that arrive meanwhile */
  async #claimTogether(clientToken: string, arrivals: Arrival[], later: Arrival[]): Promise<void> {
    const { db, settings, couriers, catchUps, metrics } = this.deps;
    let nonce: string | undefined;
    try {
      await announceClaims(db, clientToken);
      const events = arrivals.map(({ event }) => event);
      const taking = { settings, nonce: newNonce(), most: couriers?.takesAtMost(clientToken) ?? 0 };
      nonce = taking.nonce;
      const { answer, safe } = db.durably((own) => claimEvents(own, clientToken, events, taking));
      const claimed = await answer;
      if (couriers !== undefined) couriers.begin(clientToken, claimed);
      else if (claimed.wakeCatchUp) catchUps.signal(clientToken);
      for (const [i, { resolve }] of arrivals.entries()) {
        const claim = claimed.claims[i] as Claim;
        if (claim.kind !== 'claimed') this.#undelivered = Math.min(this.#undelivered + 1, maxExtraClaims);
        else if (claim.supersedes) metrics.ended('superseded');
        // Made-up client tokens are not kept.
        if (claim.kind === 'unknown_client') db.nodes.announced.delete(clientToken);
        resolve({ claim, safe });
      }
    } catch (err) {
      if (nonce !== undefined && isRedisUnavailable(err)) couriers?.noteLost(clientToken, nonce);
      for (const { reject } of arrivals) reject(err);
    } finally {
      this.#claiming.delete(clientToken);
      this.#queue(clientToken, later);
    }
  }
}
