import type { DeliverDeps } from '../delivery/deliver.js';
import { soonMs } from '../delivery/hand.js';
import type { SendDeps } from '../delivery/send.js';
import { isRedisUnavailable } from '../redis/connection/unavailable.js';
import { moveReplay } from '../redis/notifications/replay.js';
import { type Plan, planCatchUp } from '../redis/owed/standing.js';
import { getEndpoint } from '../redis/records/endpoint.js';

export type Drained = Awaited<ReturnType<typeof drainClient>>;

/** While a client's notifications flow, catch-up returns after this time: it holds no slot for them. */
const flowMs = 5000;
/** After this time catch-up looks again: the process that sends may have died. */
const lookAgainMs = 15_000;

/** Has a client's hand send what is due, for a while, and plans when to look again. @throws errors of Redis */
export async function drainClient(deps: DeliverDeps & Pick<SendDeps, 'metrics'>, clientToken: string) {
  const { hands, db, log, metrics } = deps;
  const begunAt = performance.now();
  // A full Redis refuses it, and still delivers.
  await moveReplay(db, clientToken).catch((err: unknown) => {
    if (!isRedisUnavailable(err)) throw err;
    log.warn({ err, client_token: clientToken }, 'a replay waits: Redis does not take more of it');
  });
  const leastMs = (await hands.idle(clientToken, flowMs)) ? soonMs : lookAgainMs;
  const endsAt = performance.now() + flowMs;
  let expired = 0;
  let planned: Plan;
  do {
    planned = await planCatchUp(db, clientToken, leastMs);
    expired += planned.expired;
  } while (planned.expired > 0 && performance.now() < endsAt);
  if (expired > 0)
    log.warn({ client_token: clientToken, expired }, 'notifications failed: owed for too long');
  metrics.ended('failed', expired);
  const { expired: _, ...plan } = planned;
  const endpoint = plan.owed > 0 || plan.replays ? await getEndpoint(db, clientToken) : undefined;
  const { lastError, lastDetail, lastStatus } = endpoint ?? {};
  const known = [lastError, lastDetail, lastStatus].filter((part) => part !== undefined);
  const tookMs = Math.round(performance.now() - begunAt);
  return { ...plan, tookMs, lastError: known.length > 0 ? known.join(' ') : undefined };
}
