import { clearDeletedClient, deletionsUnderWay, endDeletion } from '../redis/records/deletion.js';
import { besideOthers } from './brokenClients.js';
import type { ActivityDeps } from './deps.js';

/** Whoever has begun something for a client before its deletion, a registration or an attempt, has ended by then. */
const clearedAgainMs = 600_000;
/** Of each sweep; the others have their turn in the next. */
const clientsAtOnce = 50;

/** Goes on with deletions that broke off, and clears once more what was written beside one. */
export async function clearDeletedClients(deps: ActivityDeps, heartbeat: () => void): Promise<void> {
  const { db, log } = deps;
  for (const { clientToken, at } of await deletionsUnderWay(db, clientsAtOnce)) {
    await besideOthers(deps, clientToken, async () => {
      const { cancelled } = await clearDeletedClient(db, clientToken, heartbeat);
      if (cancelled > 0)
        log.info({ client_token: clientToken, cancelled }, 'a deleted client was owed these');
      for (let i = 0; i < cancelled; i++) deps.metrics.ended('cancelled');
      if (Date.now() + db.clockOffsetMs() - at > clearedAgainMs) await endDeletion(db, clientToken);
    });
  }
}
