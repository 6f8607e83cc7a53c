/**
 * Claims events as they arrive: those of one client that come while a claim of it is under way go together into the
 * next, and no client waits for another's claim. In one turn of the event loop only so many are claimed as the same turn
 * has time to deliver: so the intake of a busy process never outruns its deliveries.
 */

import type { Logger } from '../log.js';
import { type Db, isRedisUnavailable } from '../redis/connection/db.js';
import { untilRedisAnswers } from '../redis/connection/untilRedisAnswers.js';
import { turnAttempts } from '../redis/owed/attempts.js';
import { type ArrivedEvent, type Claim, claimEvents } from '../redis/owed/claim.js';
import { announceClaims, forgetAnnouncement } from '../redis/owed/owed.js';
import { newNonce } from './clientAttempts.js';
import type { DeliverySettings } from './settings.js';

export interface ClaimsOptions {
  db: Db;
  /** Where this process delivers: what may be sent at once is taken with the claim. */
  take?: DeliverySettings & {
    /** Those that wait come first. */
    isQueueing(clientToken: string): boolean;
  };
  wakeCatchUp(clientToken: string): void;
  log: Logger;
}

/** As many as a client has places: what is claimed is taken at once, and nothing of it waits in a queue. */
const claimedInATurn = 16;
/** What turned out to need no delivery makes room for as many in the next turn. */
const undeliveredAtMost = 500;

interface Waiting {
  event: ArrivedEvent;
  resolve(claim: Claim): void;
  reject(err: unknown): void;
}

/** @returns claims one event. Rejects with what Redis throws; the claim may have been made then, and can be repeated */
export function createClaims(options: ClaimsOptions): (event: ArrivedEvent) => Promise<Claim> {
  /** Of clients that have no claim under way; whose turn it is comes first. */
  const ready = new Map<string, Waiting[]>();
  /** What has come since their claim began. */
  const claiming = new Map<string, Waiting[]>();
  let isScheduled = false;
  /** Of those claimed before, what needs no delivery. */
  let undelivered = 0;

  function schedule(): void {
    if (isScheduled) return;
    isScheduled = true;
    setImmediate(claimTurn);
  }

  function claimTurn(): void {
    isScheduled = false;
    let left = claimedInATurn + undelivered;
    undelivered = 0;
    for (const [clientToken, queue] of ready) {
      const some = queue.splice(0, left);
      left -= some.length;
      ready.delete(clientToken);
      claiming.set(clientToken, queue);
      void claimSome(clientToken, some).then(() => proceed(clientToken));
      if (left === 0) break;
    }
    if (ready.size > 0) schedule();
  }

  function proceed(clientToken: string): void {
    const queue = claiming.get(clientToken) ?? [];
    claiming.delete(clientToken);
    if (queue.length === 0) return;
    ready.set(clientToken, queue);
    schedule();
  }

  async function claimSome(clientToken: string, some: Waiting[]): Promise<void> {
    const { db, take } = options;
    const takes = take !== undefined && !take.isQueueing(clientToken);
    const nonce = newNonce();
    try {
      // Over one connection it comes before the claim.
      const announced = announceClaims(db, [clientToken]);
      const claimed = claimEvents(
        db,
        clientToken,
        some.map(({ event }) => event),
        takes ? { ...take, nonce } : undefined,
      );
      const { claims, wakeCatchUp } = announced
        ? (await Promise.all([claimed, announced]))[0]
        : await claimed;
      for (const [i, { resolve }] of some.entries()) {
        const claim = claims[i] as Claim;
        if (claim.kind !== 'claimed') undelivered = Math.min(undelivered + 1, undeliveredAtMost);
        resolve(claim);
      }
      if (claims.some(({ kind }) => kind === 'unknown_client')) forgetAnnouncement(db, clientToken);
      if (wakeCatchUp) options.wakeCatchUp(clientToken);
    } catch (err) {
      for (const { reject } of some) reject(err);
      if (takes && isRedisUnavailable(err)) giveBack(clientToken, some, nonce);
    }
  }

  /** Its answer was lost: what it may have taken is sent when it is given again, and not after a lease of nobody's. */
  function giveBack(clientToken: string, some: Waiting[], nonce: string): void {
    const { db, take, log } = options;
    if (take === undefined) return;
    const givenBack = some.map(({ event }) => ({ platformId: event.platformId, token: nonce, inMs: 0 }));
    const turn = { givenBack, nonce: newNonce() };
    untilRedisAnswers(() => turnAttempts(db, clientToken, turn, take, take)).catch((err: unknown) =>
      log.warn({ err, client_token: clientToken }, 'what a claim has taken waits until its lease ends'),
    );
  }

  return (event) =>
    new Promise((resolve, reject) => {
      const one = { event, resolve, reject };
      const queue = claiming.get(event.clientToken) ?? ready.get(event.clientToken);
      if (queue !== undefined) {
        queue.push(one);
        return;
      }
      ready.set(event.clientToken, [one]);
      schedule();
    });
}
