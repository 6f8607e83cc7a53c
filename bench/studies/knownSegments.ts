import { randomBytes } from 'node:crypto';
import { notificationId } from '../../src/ids.js';
import type { Db } from '../../src/redis/connection/db.js';
import { type ArrivedEvent, claimEvents } from '../../src/redis/owed/claim.js';

export const segmentsOf = (i: number, count: number): string[] =>
  Array.from({ length: count }, (_, s) => `iab:${(i * 7 + s * 13) % 700}:${s}`);

/** Marks assets as known by silent events, as the first import of a catalogue does: the store's own code, without HTTP. */
export async function importCatalogue(
  db: Db,
  clientToken: string,
  assets: { from: number; to: number; segments: number },
): Promise<void> {
  const concurrency = 200;
  for (let from = assets.from; from < assets.to; from += concurrency) {
    const page = Array.from({ length: Math.min(concurrency, assets.to - from) }, (_, k) =>
      silentEvent(clientToken, from + k, assets.segments),
    );
    const { claims } = await claimEvents(db, clientToken, page);
    for (const { kind } of claims) if (kind !== 'none') throw new Error(`the import answered ${kind}`);
  }
}

function silentEvent(clientToken: string, i: number, segments: number): ArrivedEvent {
  const event = {
    clientToken,
    platformId: `video-${i}`,
    eventId: `import-${i}`,
    segments: segmentsOf(i, segments),
  };
  return {
    ...event,
    notificationId: notificationId(event),
    priority: 'live',
    notify: false,
    acceptedAt: Date.now(),
  };
}

/** Removes a client's decisions ("why did I get nothing"), which are kept for 14 days. */
export async function dropDecisions(db: Db, clientToken: string): Promise<number> {
  let dropped = 0;
  let cursor = '0';
  do {
    const [next, keys] = await db.redis.scan(
      cursor,
      'MATCH',
      db.client(clientToken).decision('*'),
      'COUNT',
      5000,
    );
    cursor = next;
    if (keys.length > 0) dropped += await db.redis.unlink(...keys);
  } while (cursor !== '0');
  return dropped;
}

/** The layout one would begin with: a set of the segments' strings for each asset. */
export async function importNaively(db: Db, assets: number, segments: number): Promise<string> {
  const base = `naive-${randomBytes(3).toString('hex')}:`;
  for (let from = 0; from < assets; from += 1000) {
    const pipeline = db.redis.pipeline();
    for (let i = from; i < Math.min(assets, from + 1000); i++) {
      pipeline.sadd(`${base}SITE0042:video-${i}`, ...segmentsOf(i, segments));
    }
    await pipeline.exec();
  }
  return base;
}
