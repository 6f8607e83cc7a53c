/**
 * Limits an account's expensive calls: those that look up a name, those that read many records,
 * and the console's. Counted in Redis over all processes; in memory while Redis is unavailable.
 *
 * Every answer says how many calls are left; 429 also has Retry-After, for the same moment.
 */
import { rateLimitFields, tooMany } from '../apiError.js';
import type { Step } from '../composeSteps.js';
import type { ApiDeps } from '../deps.js';
import type { TokenState } from './bearer.js';
import { sharedWindow } from './sharedWindow.js';

/** The name that callers see in RateLimit-Policy. */
export type AccountRate = 'names' | 'records' | 'console';

/** An account may use the calls of this time in one burst, for instance to read page after page. */
export const windowSeconds = 10;

const refusals: Record<AccountRate, string> = {
  names: 'Too many calls of this account that look up a host name',
  records: 'Too many calls of this account that read many records',
  console: 'Too many pages and links of the console for this account',
};

/** Counts a call of the token's account. @throws ApiError 429 */
export function limitAccount({ db, config }: ApiDeps, rate: AccountRate): Step<TokenState> {
  const calls = Math.max(1, Math.floor(config.ACCOUNT_RATE_PER_SECOND * windowSeconds));
  const quota = { name: rate, calls, windowSeconds };
  const count = sharedWindow(db, `${db.global.accountRate}:${rate}`, {
    points: calls,
    duration: windowSeconds,
    // An account over its rate costs Redis nothing more until the window ends.
    inMemoryBlockOnConsumed: calls + 1,
  });
  return async (ctx, next) => {
    const counted = await count(ctx.state.token.accountId);
    ctx.set(rateLimitFields(quota, counted.left, counted.msBeforeNext));
    if (counted.isOver) throw tooMany(refusals[rate], quota, counted.msBeforeNext);
    await next();
  };
}
