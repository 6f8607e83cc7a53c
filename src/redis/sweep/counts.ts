/** The counts of the last sweep, in one small hash, so that a reader of totals need not read every client. */
import { type Db, nowOf } from '../connection/db.js';
import type { EndpointState } from '../records/endpointStates.js';

/** Over all clients whose keys can be read. */
export interface Counted {
  /** Owed assets. */
  owed: number;
  owedClients: number;
  /** Clients with owed assets that could have been sent more than 2 minutes ago. */
  overdueClients: number;
  /** For how long something could have been sent to the client furthest behind, ms. */
  oldestOverdueMs: number;
  /** Running catch-up workflows, and those that the sweep has started. */
  catchUps: number;
  /** Registrations by the state that people see. */
  endpoints: Record<EndpointState, number>;
}

/** Known once a sweep has completed. */
export interface SweepEnd {
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

/** Notes that a sweep has completed now. */
export async function noteSweepEnd(db: Db, end: SweepEnd): Promise<void> {
  await note(db, 'ended', end);
}

async function note(db: Db, part: keyof Counts, found: object): Promise<void> {
  await db.redis.hset(db.global.counts, part, JSON.stringify({ at: nowOf(db), ...found }));
}

/** Returns both parts by one read of one key. */
export async function readCounts(db: Db): Promise<Counts> {
  const { counted, ended } = await db.redis.hgetall(db.global.counts);
  const counts: Counts = {};
  if (counted !== undefined) {
    const { at, ...rest } = JSON.parse(counted) as Counted & { at: number };
    counts.counted = { ...rest, ageMs: nowOf(db) - at };
  }
  if (ended !== undefined) {
    const { at, ...rest } = JSON.parse(ended) as SweepEnd & { at: number };
    counts.ended = { ...rest, atMs: at };
  }
  return counts;
}
