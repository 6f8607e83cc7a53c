/**
 * Limits how often one account may make calls that are dear: those that have a name looked up, those that read many records,
 * and the console's. Counted in Redis over all processes; while Redis is away, in memory.
 *
 * Every answer says what is left, in the fields of draft-ietf-httpapi-ratelimit-headers (revisions 8 to 11); 429 has
 * Retry-After besides, for the same moment.
 */
import { tooMany } from '../apiError.js';
import type { ApiDeps } from '../deps.js';
import type { Step } from '../endpoint.js';
import type { TokenState } from './bearer.js';
import { sharedWindow } from './sharedWindow.js';

/** As callers see it in RateLimit-Policy. */
export type AccountRate = 'names' | 'records' | 'console';

/** An account may use up what it has for this long at once: a page of a list is followed by the next. */
export const windowSeconds = 10;

const refusals: Record<AccountRate, string> = {
  names: 'Too many calls of this account that look up a host name',
  records: 'Too many calls of this account that read many records',
  console: 'Too many pages and links of the console for this account',
};

/** Counts a call of the token's account. @throws ApiError 429 */
export function limitAccount({ db, config }: ApiDeps, rate: AccountRate): Step<TokenState> {
  const quota = Math.max(1, Math.floor(config.ACCOUNT_RATE_PER_SECOND * windowSeconds));
  const count = sharedWindow(db, `${db.global.accountRate}:${rate}`, {
    points: quota,
    duration: windowSeconds,
    // Who is over it costs Redis nothing more until the window ends.
    inMemoryBlockOnConsumed: quota + 1,
  });
  return async (ctx, next) => {
    const counted = await count(ctx.state.token.accountId);
    const resetSeconds = Math.max(1, Math.ceil(counted.msBeforeNext / 1000));
    ctx.set('RateLimit-Policy', `"${rate}";q=${quota};w=${windowSeconds}`);
    ctx.set('RateLimit', `"${rate}";r=${counted.left};t=${resetSeconds}`);
    if (counted.isOver) throw tooMany(refusals[rate], counted.msBeforeNext);
    await next();
  };
}
