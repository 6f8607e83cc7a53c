import { someListed, someOwedAssets } from '../redis/owed/owedWalk.js';
import { type Standing, standingsOf } from '../redis/owed/standing.js';
import { dropFinding, type Finding, findings, keepFinding, nextClients } from '../redis/sweep/findings.js';
import { besideOthers } from './brokenClients.js';
import type { ActivityDeps } from './deps.js';
import { disagreementOf, isAgedOut } from './judge.js';

/** The sample of one sweep costs Redis some tens of milliseconds. */
const maxClients = 50;
const maxNotifications = 10_000;

/**
 * Checks whether records agree with what is owed: first the findings of earlier sweeps, then a bounded sample of
 * different clients each time. `operator reconcile` checks every record.
 */
export async function accountForSome(deps: ActivityDeps, heartbeat: () => void): Promise<void> {
  for (const before of await findings(deps.db)) {
    await besideOthers(deps, before.clientToken, async () => {
      const [again] = await problemsOf(deps, before.clientToken, [before]);
      if (again === undefined) await dropFinding(deps.db, before);
    });
  }
  const clientTokens = await nextClients(deps.db, maxClients);
  const share = Math.ceil(maxNotifications / Math.max(clientTokens.length, 1) / 2);
  for (const clientToken of clientTokens) {
    heartbeat();
    await besideOthers(deps, clientToken, async () => {
      await accountForClient(deps, clientToken, share);
    });
  }
}

/** Checks `share` of a client's owed assets, and as many of its notifications; keeps and logs new findings. */
export async function accountForClient(
  deps: ActivityDeps,
  clientToken: string,
  share: number,
): Promise<void> {
  const found = [
    ...(await problemsOf(deps, clientToken, await someOwedAssets(deps.db, clientToken, share))),
    ...(await problemsOf(deps, clientToken, await someListed(deps.db, clientToken, share))),
  ];
  for (const finding of found) {
    if (!(await keepFinding(deps.db, finding))) continue;
    const { notificationId: notification_id, platformId: platform_id, problem } = finding;
    deps.log.error({ client_token: clientToken, notification_id, platform_id, problem }, 'unaccounted for');
  }
}

async function problemsOf(
  deps: ActivityDeps,
  clientToken: string,
  asked: readonly { notificationId: string; platformId?: string; acceptedAt?: number }[],
): Promise<Finding[]> {
  const { standings, now } = await standingsOf(deps.db, clientToken, asked);
  return standings.flatMap((standing, i) => {
    const problem =
      disagreementOf(standing, now, deps.settings) ?? missing(standing, asked[i]?.acceptedAt, now);
    if (problem === undefined) return [];
    const { notificationId, platformId } = standing;
    return [{ clientToken, notificationId, ...(platformId !== undefined && { platformId }), problem }];
  });
}

/** Makes the finding for a listed notification whose record is missing too early. */
function missing(
  { state, listed }: Standing,
  acceptedAt: number | undefined,
  now: number,
): string | undefined {
  if (state !== undefined || !listed || acceptedAt === undefined || isAgedOut(acceptedAt, now))
    return undefined;
  return 'record_missing';
}
