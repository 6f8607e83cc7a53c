import { nowOf } from '../redis/connection/db.js';
import { clearDeletedClient, deletionsUnderWay, endDeletion } from '../redis/records/deletion.js';
import { besideOthers, type SweepDeps } from './brokenClients.js';

/** By then a registration or an attempt that began before its client's deletion has ended. */
const clearedAgainMs = 600_000;
/** Clients in each sweep; the others have their turn in the next. */
const maxClients = 50;

/** Continues interrupted deletions, and clears keys that others wrote during a deletion. */
export async function clearDeletedClients(deps: SweepDeps, heartbeat: () => void): Promise<void> {
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
      if (nowOf(db) - at > clearedAgainMs) await endDeletion(db, clientToken);
    });
  }
}
