import { notificationId } from '../../src/ids.js';
import type { Db } from '../../src/redis/connection/db.js';
import { type ArrivedEvent, claimEvents } from '../../src/redis/owed/claim.js';
import { announceClaims } from '../../src/redis/owed/owed.js';

/** By the store's own claim, not through API and worker: what these hold afterwards is the backlog's alone. */
export async function owe(
  db: Db,
  clientToken: string,
  assets: number,
  priority: 'live' | 'backfill',
): Promise<ArrivedEvent[]> {
  const events: ArrivedEvent[] = [];
  await announceClaims(db, [clientToken]);
  for (let from = 0; from < assets; from += 200) {
    const page = Array.from({ length: Math.min(200, assets - from) }, (_, k): ArrivedEvent => {
      const name = `owed-${from + k}`;
      const event = { clientToken, platformId: name, eventId: name, segments: [`iab:${from + k}`] };
      return {
        ...event,
        notificationId: notificationId(event),
        priority,
        notify: true,
        acceptedAt: Date.now(),
      };
    });
    await claimEvents(db, clientToken, page);
    events.push(...page);
  }
  return events;
}
