/**
 * Limits calls over all processes: an account's expensive calls (`AccountRate`), and failed requests for tokens.
 * Failures count for one client id from one address: a caller without the secret cannot use up the customer's calls from another
 * address. pace.ts bounds all calls in each process.
 */
import { hash } from 'node:crypto';
import type { Context } from 'koa';
import type { Db } from '../redis/connection/db.js';
import { type Quota, rateLimitFields, tooMany } from './apiError.js';
import { networkOf } from './clientAddress.js';
import { sharedRate } from './rates.js';

/** The name that callers see in RateLimit-Policy. */
export type AccountRate = keyof typeof refusals;

/** An account may make the calls of this time at once, for instance to read page after page. */
const windowSeconds = 10;

const refusals = {
  names: 'Too many calls of this account that look up a host name',
  records: 'Too many calls of this account that read many records',
  secrets: 'Too many calls of this account that show or make a secret',
  console: 'Too many pages of the console for this account',
  links: 'Too many links to the console for this token',
  accountLinks: 'Too many links to the console for this account',
  signIns: 'Too many sign-ins of this person',
};

/** Each link and each sign-in may become a session, which is kept for 8 h. */
const own: Record<string, Omit<Quota, 'name'>> = {
  // In a day one token makes fewer than the audit takes of all (redis/records/audit.ts).
  links: { calls: 40, windowSeconds: 3600 },
  accountLinks: { calls: 400, windowSeconds: 3600 },
  signIns: { calls: 60, windowSeconds: 60 },
};

/** 1,000 entries: some 3 ms of Redis. */
const piecesPerCall = 5;

/** Counts calls towards rates of their accounts, over all processes. */
export function accountLimits(db: Db, callsPerSecond: number) {
  const calls = Math.max(1, Math.floor(callsPerSecond * windowSeconds));
  const rates = Object.keys(refusals).map((name) => {
    const quota: Quota = { name, ...(own[name] ?? { calls, windowSeconds }) };
    return [name, { quota, rate: sharedRate(db, `${db.global.accountRate}:${name}`, quota) }] as const;
  });
  const rateOf = Object.fromEntries(rates) as Record<AccountRate, (typeof rates)[number][1]>;
  return {
    /** @throws ApiError 429 above the rate */
    async countCall(ctx: Pick<Context, 'set'>, name: AccountRate, accountId: string): Promise<void> {
      const { quota, rate } = rateOf[name];
      const { waitMs, fullInMs } = await rate.count(accountId);
      if (waitMs > 0) {
        ctx.set(rateLimitFields(quota, 0, waitMs));
        throw tooMany(refusals[name], quota, waitMs);
      }
      const left = Math.floor(quota.calls * (1 - fullInMs / (quota.windowSeconds * 1000)));
      ctx.set(rateLimitFields(quota, left, fullInMs));
    },
    /** Returns the counter of one search: each few pieces of a list count as a call, whatever the rate allows. */
    countPieces(name: AccountRate, accountId: string): () => void {
      let pieces = 0;
      return () => {
        if (++pieces % piecesPerCall === 0) void rateOf[name].rate.countMade(accountId);
      };
    },
  };
}

/** Failures for one client id from one address. */
const failures = { name: 'failures', calls: 10, windowSeconds: 60 };

/** Limits failed requests for tokens; each member throws ApiError 429. */
export function createFailureLimits(db: Db) {
  const rate = sharedRate(db, db.global.tokenFailures, failures);
  const refuseFor = (waitMs: number): void => {
    if (waitMs > 0) throw tooMany('Too many failures', failures, waitMs);
  };
  return {
    /** Refuses an address that has failed too often: a good request needs no look-up. */
    refuseTooMany: (clientId: string, address: string) =>
      refuseFor(rate.refusedFor(failureKey(clientId, address))),
    count: async (clientId: string, address: string) =>
      refuseFor((await rate.count(failureKey(clientId, address))).waitMs),
  };
}

/** A stranger may send any client id: its hash has a bounded length. */
const failureKey = (clientId: string, address: string): string =>
  `${hash('sha256', clientId, 'base64url').slice(0, 22)}:${networkOf(address)}`;
