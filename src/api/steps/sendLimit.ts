import type { Db } from '../../redis/connection/db.js';
import { takeSendCall } from '../../redis/records/sendLimit.js';
import { tooMany } from '../apiError.js';
import type { Step } from '../composeSteps.js';
import type { ClientState } from './publisher.js';

/** One in 5 s, bursts of 5. */
const quota = { name: 'sends', calls: 5, windowSeconds: 25 };

/**
 * Limits a client's calls that send something: one in 5 s, bursts of 5.
 * @param sends how many this call counts as, 1 or 5
 */
export function limitSends(db: Db, sends?: 1 | 5): Step<ClientState> {
  return async (ctx, next) => {
    const waitMs = await takeSendCall(db, ctx.state.client.clientToken, sends);
    if (waitMs > 0) throw tooMany('Too many calls that send something for this client', quota, waitMs);
    await next();
  };
}
