import type { Db } from '../../src/redis/connection/db.js';
import { type ArrivedEvent, claimEvents } from '../../src/redis/owed/claim.js';
import { announceClaims } from '../../src/redis/owed/owedClients.js';
import { arrivedEvent } from './arrivedEvent.js';

/** Makes assets owed by the store's claim. Without API and worker, their memory afterwards is due to the backlog only. */
export async function owe(
  db: Db,
  clientToken: string,
  assets: number,
  priority: 'live' | 'backfill',
): Promise<ArrivedEvent[]> {
  const events: ArrivedEvent[] = [];
  await announceClaims(db, [clientToken]);
  for (let from = 0; from < assets; from += 200) {
    const page = Array.from({ length: Math.min(200, assets - from) }, (_, k) => {
      const name = `owed-${from + k}`;
      const ids = { clientToken, platformId: name, eventId: name };
      return arrivedEvent({ ...ids, segments: [`iab:${from + k}`] }, { priority });
    });
    await claimEvents(db, clientToken, page);
    events.push(...page);
  }
  return events;
}
