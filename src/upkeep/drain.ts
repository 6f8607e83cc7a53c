import { soonMs } from '../delivery/courier.js';
import type { DeliverDeps } from '../delivery/deliver.js';
import type { DeliveryMetrics } from '../delivery/send.js';
import { type Plan, planCatchUp } from '../redis/owed/standing.js';
import { getEndpoint } from '../redis/records/endpoint.js';

export interface Drained extends Omit<Plan, 'expired'> {
  lastError?: string;
}

/** While a client's notifications flow, catch-up returns after this time: it holds no slot for them. */
const flowMs = 5000;
/** After this time catch-up looks again: the process that sends may have died. */
const lookAgainMs = 15_000;

/** Has a client's courier send what is due, for a while, and plans when to look again. @throws errors of Redis */
export async function drainClient(
  deps: DeliverDeps & { metrics: Pick<DeliveryMetrics, 'ended'> },
  clientToken: string,
): Promise<Drained> {
  const { couriers, db, metrics, settings } = deps;
  const leastMs = (await couriers.idle(clientToken, flowMs)) ? soonMs : lookAgainMs;
  const { expired, ...plan } = await planCatchUp(db, clientToken, settings.retentionMs, leastMs);
  for (let i = 0; i < expired; i++) metrics.ended('failed');
  const endpoint = plan.owed > 0 ? await getEndpoint(db, clientToken) : undefined;
  const lastError =
    endpoint?.lastStatus === undefined ? endpoint?.lastError : `${endpoint.lastError} ${endpoint.lastStatus}`;
  return { ...plan, lastError };
}
