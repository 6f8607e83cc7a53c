/**
 * Limits how often tokens may be asked for.
 *
 * Per client id only tokens that were minted count, and failures count for one client id from one address: who does
 * not have the secret cannot use up what the customer may do from elsewhere. The first is counted in the memory of
 * each process (a Redis call less for each token; with n processes up to n times the rate), failures in Redis, so
 * that they add up over all processes; while Redis is away, in memory.
 */
import { hash } from 'node:crypto';
import type { Db } from '../../redis/connection/db.js';
import { tooMany } from '../apiError.js';
import { networkOf } from '../clientAddress.js';
import { RefusedUntil } from './refusedUntil.js';
import { SecondWindow } from './secondWindow.js';
import { sharedWindow } from './sharedWindow.js';

export interface TokenLimits {
  /** @throws ApiError 429 */
  refuseTooMany(clientId: string, address: () => string): void;
  /** Counts a token that was minted and not yet given out. @throws ApiError 429 when others were faster */
  countToken(clientId: string): void;
  /** @throws ApiError 429 when this failure is one too many */
  countFailure(clientId: string, address: string): Promise<void>;
}

/** Failures for one client id from one address. */
const failuresAllowed = 10;
const failuresWindowSeconds = 60;
/** About 1 MB in each process, however many ids and addresses a stranger makes up. */
const refusedAtMost = 10_000;

export function createTokenLimits(db: Db, tokensPerSecond: number): TokenLimits {
  const tokens = new SecondWindow(tokensPerSecond);
  const countFailed = sharedWindow(db, db.global.tokenFailures, {
    points: failuresAllowed,
    duration: failuresWindowSeconds,
  });
  // Who has failed too often is remembered here: the way of a good request needs no look-up.
  const refused = new RefusedUntil(refusedAtMost);

  return {
    refuseTooMany(clientId, address) {
      const now = Date.now();
      if (refused.size > 0) {
        const refusedForMs = refused.refusedForMs(failureKey(clientId, address()), now);
        if (refusedForMs > 0) throw tooMany('Too many failures, please try again later', refusedForMs);
      }
      const fullForMs = tokens.fullForMs(clientId, now);
      if (fullForMs > 0) throw tooManyTokens(fullForMs);
    },
    countToken(clientId) {
      const now = Date.now();
      if (!tokens.count(clientId, now)) throw tooManyTokens(tokens.fullForMs(clientId, now));
    },
    async countFailure(clientId, address) {
      const key = failureKey(clientId, address);
      const { isOver, msBeforeNext } = await countFailed(key);
      if (!isOver) return;
      refused.refuse(key, Date.now() + msBeforeNext);
      throw tooMany('Too many failures, please try again later', msBeforeNext);
    },
  };
}

const tooManyTokens = (waitMs: number) => tooMany('Too many requests for this client_id', waitMs);

/** A client id may be anything that a stranger sends: its hash has a bounded length. */
const failureKey = (clientId: string, address: string): string =>
  `${hash('sha256', clientId, 'base64url').slice(0, 22)}:${networkOf(address)}`;
