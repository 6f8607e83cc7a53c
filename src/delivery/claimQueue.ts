import type { DeliverySettings } from '../config.js';
import type { Logger } from '../log.js';
import type { Db } from '../redis/connection/db.js';
import { isRedisUnavailable } from '../redis/connection/unavailable.js';
import { untilRedisAnswers } from '../redis/connection/untilRedisAnswers.js';
import { type ArrivedEvent, type Claim, claimEvents } from '../redis/owed/claim.js';
import { announceClaims, forgetAnnouncement } from '../redis/owed/owedClients.js';
import { turnAttempts } from '../redis/owed/turn.js';
import type { CatchUps } from '../temporal/catchUps.js';
import type { DeliveryMetrics } from './deps.js';
import type { Engine } from './engine.js';
import { newNonce } from './nonce.js';

export interface ClaimDeps {
  db: Db;
  settings: DeliverySettings;
  /** Set if this process delivers: a claim also takes assets that may be sent now, unless older events of the client wait. */
  engine?: Engine | undefined;
  catchUps: Pick<CatchUps, 'signal'>;
  log: Logger;
  metrics: Pick<DeliveryMetrics, 'ended'>;
}

/** As many as a client has places: each event is taken with its claim, and none waits in a queue. */
const claimsPerTurn = 16;
/** A turn claims one more for each event of the turn before that needed no delivery, up to this number. */
const maxExtraClaims = 500;

export interface Claimed {
  claim: Claim;
  /** Resolves once the claim is on Redis' disk. */
  safe: Promise<unknown>;
}

interface ClaimRequest {
  event: ArrivedEvent;
  resolve(claimed: Claimed): void;
  reject(err: unknown): void;
}

/**
 * Claims events as they arrive. Events of one client that arrive during a claim go together into its next claim,
 * and no client waits for another's claim. A turn of the event loop claims only as many events as it can deliver, so
 * the intake of a busy process never outruns its deliveries.
 */
export class ClaimQueue {
  /** Events of clients that have no claim under way; the next client comes first. */
  readonly #ready = new Map<string, ClaimRequest[]>();
  /** Events that have arrived since the claim of their client began. */
  readonly #claiming = new Map<string, ClaimRequest[]>();
  #isScheduled = false;
  /** Events claimed in the last turn that need no delivery. */
  #undelivered = 0;

  constructor(readonly deps: ClaimDeps) {}

  /** Claims one event. @throws errors of Redis; the claim may then have been made, and can be repeated */
  claim(event: ArrivedEvent): Promise<Claimed> {
    const { clientToken } = event;
    return new Promise((resolve, reject) => {
      const waiting = { event, resolve, reject };
      const queue = this.#claiming.get(clientToken) ?? this.#ready.get(clientToken);
      if (queue === undefined) this.#makeReady(clientToken, [waiting]);
      else queue.push(waiting);
    });
  }

  #makeReady(clientToken: string, queue: ClaimRequest[]): void {
    this.#ready.set(clientToken, queue);
    this.#schedule();
  }

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    setImmediate(() => this.#turn());
  }

  #turn(): void {
    this.#isScheduled = false;
    let left = claimsPerTurn + this.#undelivered;
    this.#undelivered = 0;
    for (const [clientToken, queue] of this.#ready) {
      const next = queue.splice(0, left);
      left -= next.length;
      this.#ready.delete(clientToken);
      this.#claiming.set(clientToken, queue);
      void this.#claimNext(clientToken, next);
      if (left === 0) break;
    }
    if (this.#ready.size > 0) this.#schedule();
  }

  async #claimNext(clientToken: string, next: ClaimRequest[]): Promise<void> {
    await this.#claimTogether(clientToken, next);
    const queue = this.#claiming.get(clientToken) ?? [];
    this.#claiming.delete(clientToken);
    if (queue.length > 0) this.#makeReady(clientToken, queue);
  }

  async #claimTogether(clientToken: string, waiting: ClaimRequest[]): Promise<void> {
    const { db, settings, engine, catchUps, metrics } = this.deps;
    const takes = engine !== undefined && !engine.isQueueing(clientToken);
    const nonce = newNonce();
    const events = waiting.map(({ event }) => event);
    try {
      const announced = announceClaims(db, [clientToken]);
      if (announced !== undefined) await announced;
      const { answer, safe } = db.durably((own) =>
        claimEvents(own, clientToken, events, takes ? { ...settings, nonce } : undefined),
      );
      const { claims, wakeCatchUp } = await answer;
      for (const [i, { resolve }] of waiting.entries()) {
        const claim = claims[i] as Claim;
        if (claim.kind !== 'claimed') this.#undelivered = Math.min(this.#undelivered + 1, maxExtraClaims);
        else if (claim.supersedes) metrics.ended('superseded');
        resolve({ claim, safe });
      }
      if (claims.some(({ kind }) => kind === 'unknown_client')) forgetAnnouncement(db, clientToken);
      if (wakeCatchUp) catchUps.signal(clientToken);
    } catch (err) {
      for (const { reject } of waiting) reject(err);
      if (takes && isRedisUnavailable(err)) this.#giveBack(clientToken, events, nonce);
    }
  }

  /** Gives back the assets of a claim whose answer was lost: otherwise they would wait until an unused lease ends. */
  #giveBack(clientToken: string, events: ArrivedEvent[], token: string): void {
    const { db, settings, log } = this.deps;
    const givenBack = events.map(({ platformId }) => ({ platformId, token, inMs: 0 }));
    const turn = { givenBack, nonce: newNonce() };
    untilRedisAnswers(() => turnAttempts(db, clientToken, turn, settings)).catch((err: unknown) =>
      log.warn({ err, client_token: clientToken }, 'assets taken by a claim wait until their lease ends'),
    );
  }
}
