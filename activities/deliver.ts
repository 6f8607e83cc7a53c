import { deliverNow } from '../src/delivery/deliverNow.js';
import { type Report, reportOf } from '../src/delivery/report.js';
import type { ClaimedEvent } from '../src/redis/owed/claim.js';
import type { ActivityDeps } from '../src/upkeep/deps.js';

/** A local activity keeps its workflow's task open, so `awaitDelivery` waits for attempts that take longer. */
const waitMs = 500;

/** Joins the first attempts of these events in this process, or begins them, and waits for a short time. */
export async function deliver({ engine }: ActivityDeps, events: ClaimedEvent[]): Promise<Report> {
  return reportOf(await deliverNow(engine, events, waitMs));
}

/** Hands these clients' owed assets over to catch-up: wakes it if it would plan too late. */
export async function handOver({ catchUps }: ActivityDeps, clientTokens: string[]): Promise<void> {
  await Promise.all(clientTokens.map((clientToken) => catchUps.wake(clientToken, 0)));
}
