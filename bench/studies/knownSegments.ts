import { randomBytes } from 'node:crypto';
import type { Db } from '../../src/redis/connection/db.js';
import { type ArrivedEvent, claimEvents } from '../../src/redis/owed/claim.js';
import { arrivedEvent } from './arrivedEvent.js';

const segmentsOf = (i: number, count: number): string[] =>
  Array.from({ length: count }, (_, s) => `iab:${(i * 7 + s * 13) % 700}:${s}`);

/** Marks segments as known by silent events, like the first import of a catalogue, through the store's code without HTTP. */
export async function importCatalogue(
  db: Db,
  clientToken: string,
  assets: { from: number; to: number; segments: number },
): Promise<void> {
  const pageSize = 200;
  for (let from = assets.from; from < assets.to; from += pageSize) {
    const page = Array.from({ length: Math.min(pageSize, assets.to - from) }, (_, k) =>
      silentEvent(clientToken, from + k, assets.segments),
    );
    const { claims } = await claimEvents(db, clientToken, page);
    for (const { kind } of claims) if (kind !== 'none') throw new Error(`the import answered ${kind}`);
  }
}

function silentEvent(clientToken: string, i: number, segments: number): ArrivedEvent {
  const ids = { clientToken, platformId: `video-${i}`, eventId: `import-${i}` };
  return arrivedEvent({ ...ids, segments: segmentsOf(i, segments) }, { notify: false });
}

/** Removes a client's decisions, which are kept for 14 days. Returns how many there were. */
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

/** Writes the simplest layout: for each asset a set of the segments' texts. Returns the prefix of its keys. */
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
