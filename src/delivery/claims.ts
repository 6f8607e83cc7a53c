/**
 * Claims events as they arrive. Those of one client that come while a claim of it is under way go together into the
 * next; no client waits for another.
 */
import { type ArrivedEvent, type Claim, claimEvents } from '../store/claim.js';
import type { Db } from '../store/db.js';
import { announceClaims } from '../store/owed.js';
import type { Bounds } from '../store/take.js';
import { newNonce } from './clientAttempts.js';

export interface ClaimsOptions {
  db: Db;
  /** Where this process delivers: what may be sent at once is taken with the claim. */
  take?: Bounds & {
    /** Those that wait come first. */
    isQueueing(clientToken: string): boolean;
  };
  wakeCatchUp(clientToken: string): void;
}

/** A script of so many events holds up Redis for about 2 ms. */
const claimedAtOnce = 64;

interface Waiting {
  event: ArrivedEvent;
  resolve(claim: Claim): void;
  reject(err: unknown): void;
}

/** @returns claims one event. Rejects with what Redis throws; the claim may have been made then, and can be repeated */
export function createClaims(options: ClaimsOptions): (event: ArrivedEvent) => Promise<Claim> {
  const waiting = new Map<string, Waiting[]>();

  async function claimAll(clientToken: string, queue: Waiting[]): Promise<void> {
    while (queue.length > 0) await claimSome(clientToken, queue.splice(0, claimedAtOnce));
    waiting.delete(clientToken);
  }

  async function claimSome(clientToken: string, some: Waiting[]): Promise<void> {
    const { db, take } = options;
    const takes = take !== undefined && !take.isQueueing(clientToken);
    try {
      // Over one connection it comes before the claim.
      const announced = announceClaims(db, [clientToken]);
      const claiming = claimEvents(
        db,
        clientToken,
        some.map(({ event }) => event),
        takes ? { ...take, nonce: newNonce() } : undefined,
      );
      const [{ claims, wakeCatchUp }] = await Promise.all([claiming, announced]);
      for (const [i, { resolve }] of some.entries()) resolve(claims[i] as Claim);
      if (wakeCatchUp) options.wakeCatchUp(clientToken);
    } catch (err) {
      for (const { reject } of some) reject(err);
    }
  }

  return (event) =>
    new Promise((resolve, reject) => {
      const one = { event, resolve, reject };
      const queue = waiting.get(event.clientToken);
      if (queue !== undefined) queue.push(one);
      else {
        const begun = [one];
        waiting.set(event.clientToken, begun);
        // What else arrives in this turn of the event loop is claimed with it.
        setImmediate(() => void claimAll(event.clientToken, begun));
      }
    });
}
