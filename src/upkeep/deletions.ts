import { clearDeletedClient, deletionsUnderWay, endDeletion } from '../redis/records/deletion.js';
import { besideOthers } from './brokenClients.js';
import type { ActivityDeps } from './deps.js';

/** A registration or an attempt that began before its client's deletion has ended by then. */
const clearedAgainMs = 600_000;
/** In each sweep; the others have their turn in the next. */
const maxClients = 50;

/** Goes on with deletions that broke off, and clears again what others wrote while a deletion went on. */
export async function clearDeletedClients(deps: ActivityDeps, heartbeat: () => void): Promise<void> {
  const { db, log } = deps;
  for (const { clientToken, at } of await deletionsUnderWay(db, maxClients)) {
    await besideOthers(deps, clientToken, async () => {
      const { cancelled } = await clearDeletedClient(db, clientToken, heartbeat);
      if (cancelled > 0)
        log.info(
          { client_token: clientToken, cancelled },
          'cancelled the owed notifications of a deleted client',
        );
      for (let i = 0; i < cancelled; i++) deps.metrics.ended('cancelled');
      if (Date.now() + db.clockOffsetMs() - at > clearedAgainMs) await endDeletion(db, clientToken);
    });
  }
}
