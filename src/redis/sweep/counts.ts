/** What the last sweep counted, in one small hash: who asks how much there is reads this, and walks nothing. */
import type { Db } from '../connection/db.js';
import type { EndpointState } from '../records/stateChanges.js';

/** Over all clients whose keys can be read. */
export interface Counted {
  /** Assets owed. */
  owed: number;
  owedClients: number;
  /** Clients that are owed what could have been sent more than 2 minutes before. */
  overdueClients: number;
  /** Catch-up workflows that ran, and those that the sweep has started. */
  catchUps: number;
  /** Registrations by the state that people see. */
  endpoints: Record<EndpointState, number>;
}

/** What is known once a sweep has run to its end. */
export interface SweepEnd {
  unaccounted: number;
  brokenClients: number;
}

/** A part is missing until a sweep has written it. */
export interface Counts {
  counted?: Counted & { ageMs: number };
  /** ms since the epoch */
  ended?: SweepEnd & { atMs: number };
}

export async function noteCounted(db: Db, counted: Counted): Promise<void> {
  await note(db, 'counted', counted);
}

/** Says that a sweep has run to its end, now. */
export async function noteSweepEnd(db: Db, end: SweepEnd): Promise<void> {
  await note(db, 'ended', end);
}

async function note(db: Db, part: keyof Counts, found: object): Promise<void> {
  await db.redis.hset(db.global.counts, part, JSON.stringify({ at: nowMs(db), ...found }));
}

/** Returns both parts by one read of one key. */
export async function readCounts(db: Db): Promise<Counts> {
  const { counted, ended } = await db.redis.hgetall(db.global.counts);
  const counts: Counts = {};
  if (counted !== undefined) {
    const { at, ...rest } = JSON.parse(counted) as Counted & { at: number };
    counts.counted = { ...rest, ageMs: nowMs(db) - at };
  }
  if (ended !== undefined) {
    const { at, ...rest } = JSON.parse(ended) as SweepEnd & { at: number };
    counts.ended = { ...rest, atMs: at };
  }
  return counts;
}

const nowMs = (db: Db): number => Date.now() + db.clockOffsetMs();
