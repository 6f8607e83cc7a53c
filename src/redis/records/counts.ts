/** The counts of the last sweep, in one small hash, so that a reader of totals need not read every client. */
import { type Db, nowOf } from '../connection/db.js';
import { isRedisUnavailable, RedisUnavailable } from '../connection/unavailable.js';
import { clientTokens } from './clients.js';
import type { EndpointState } from './endpoint.js';

/** Over all clients whose keys can be read. */
export interface Counted {
  /** Owed assets. */
  owed: number;
  owedClients: number;
  /** Clients with owed assets that could have been sent more than 2 minutes ago. */
  overdueClients: number;
  /** For how long something could have been sent to the client furthest behind, ms. */
  oldestOverdueMs: number;
  /** Clients whose catch-up is known to run. */
  catchUps: number;
  /** Registrations by the state that people see, and when they were counted (ms). */
  endpoints?: Record<EndpointState, number>;
  endpointsAt?: number;
}

/** A part is missing until a sweep has written it. */
export interface Counts {
  counted?: Counted & { ageMs: number };
  /** The end of the last sweep; `atMs`: ms since the epoch. */
  ended?: { brokenClients: number; atMs: number };
}

export const noteCounted = (db: Db, counted: Counted): Promise<void> => note(db, 'counted', counted);

/** Notes that a sweep has completed now. */
export const noteSweepEnd = (db: Db, end: { brokenClients: number }): Promise<void> => note(db, 'ended', end);

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
    const { at, ...rest } = JSON.parse(ended) as { brokenClients: number; at: number };
    counts.ended = { ...rest, atMs: at };
  }
  return counts;
}

/**
 * Counts the registrations of all clients by the state that people see: two commands for each client, in pages of 500.
 * 100,000 clients take 2 s of CPU here and 0.3 s in Redis.
 * @param told `page` is called before each page; `broken` for each client whose keys cannot be read, which is not counted;
 * `notice` for each client that has a notice to claim (records/notices.ts), which the same commands find
 * @throws if Redis is unavailable
 */
export async function countEndpoints(
  db: Db,
  told: {
    page(): void;
    broken(clientToken: string, err: unknown): void;
    notice(clientToken: string): void;
  },
): Promise<Record<EndpointState, number>> {
  const counts = { active: 0, failing: 0, paused: 0, suspended: 0 };
  for await (const page of clientTokens(db)) {
    told.page();
    const commands = db.redis.pipeline();
    for (const clientToken of page) {
      const { registration, endpoint } = db.client(clientToken);
      commands.hexists(registration, 'url').hmget(endpoint, ...asked);
    }
    const answers = await commands.exec();
    if (!answers) throw new RedisUnavailable('the counts were not read');
    for (const [i, clientToken] of page.entries()) {
      const [err, isRegistered] = answers[2 * i] as [Error | null, number];
      const [fieldsErr, fields] = answers[2 * i + 1] as [Error | null, (string | null)[]];
      const broken = err ?? fieldsErr;
      if (broken !== null) {
        if (isRedisUnavailable(broken)) throw broken;
        told.broken(clientToken, broken);
        continue;
      }
      if (isRegistered === 1) counts[stateOf(fields)]++;
      if (fields[3] || fields[4]) told.notice(clientToken);
    }
  }
  return counts;
}

const asked = ['paused', 'held', 'state', 'state_notice', 'secret_notice'];

function stateOf([paused, held, state]: (string | null)[]): EndpointState {
  if (paused === '1' || held === '1') return 'paused';
  return state === 'failing' || state === 'suspended' ? state : 'active';
}
