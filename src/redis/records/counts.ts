/** The counts of the last sweep, in one small hash, so that a reader of totals need not read every client. */
import { type Db, nowOf, toPairs } from '../connection/db.js';
import { answerOf, evaluate, readEachKey } from '../connection/library.js';
import { unlessBroken } from '../connection/unavailable.js';
import { trimFailed } from '../notifications/redeliver.js';
import { trimUpdates } from '../notifications/updates.js';
import { noteAmiss } from '../owed/owedClients.js';
import { clientTokens } from './clients.js';
import { type EndpointState, isAmiss, noteStateChanges } from './endpoint.js';
import { entryOf, indexClient, isIndexed } from './nameIndex.js';
import { noticeFields } from './notices.js';
import { dropFormer } from './secrets.js';

export const nothingCounted = {
  owed: 0,
  owedClients: 0,
  /** Clients with owed assets that could have been sent more than 2 minutes ago. */
  overdueClients: 0,
  /** For how long something could have been sent to the client furthest behind, ms. */
  oldestOverdueMs: 0,
  /** How far behind now the time is until which all has arrived, of the client furthest behind to which something may be sent, ms. */
  undeliveredMs: 0,
  catchUps: 0,
  /** Clients with a failing endpoint, by the class of its last failure; their accounts, and what they are owed. */
  failing: {} as Record<string, number>,
  failingAccounts: 0,
  failingOwed: 0,
};

/** A part is missing until a sweep has noted it, and while its time lies ahead, because Redis' clock was set back; `ageMs`: its age. */
export interface Counts {
  /** Over all clients whose keys can be read. */
  counted?: typeof nothingCounted & Noted;
  /** Registrations by the state that people see; those, and their accounts, to which an attempt was made in the last day. */
  endpoints?: Awaited<ReturnType<typeof countEndpoints>> & Noted;
  /** The end of the last sweep; `steadyMs`: for how long Redis' clock had shown no jump then. */
  ended?: { brokenClients: number; steadyMs: number } & Noted;
}

type Noted = { atMs: number; ageMs: number };

export async function noteCounts<Part extends keyof Counts>(
  db: Db,
  part: Part,
  found: Omit<NonNullable<Counts[Part]>, keyof Noted>,
): Promise<void> {
  await evaluate(db, 'noteCounts', [db.global.counts], [part, JSON.stringify(found)]);
}

export async function readCounts(db: Db): Promise<Counts> {
  const [now, stored] = await evaluate<[number, string[]]>(db, 'readCounts', [db.global.counts]);
  const parts = toPairs(stored).flatMap(([part, text]) => {
    const noted = JSON.parse(text) as Omit<Noted, 'ageMs'>;
    return noted.atMs > now ? [] : [[part, { ...noted, ageMs: now - noted.atMs }]];
  });
  return Object.fromEntries(parts) as Counts;
}

/** What the sweep has found amiss counts for so long: it counts every minute. */
const countedMs = 180_000;

/** Returns whether `clientsToLookAt` misses nobody: false while no sweep counts. */
export async function isAmissKnown(db: Db): Promise<boolean> {
  const { endpoints } = await readCounts(db);
  return endpoints?.amiss !== undefined && endpoints.ageMs < countedMs;
}

const dayMs = 86_400_000;

/**
 * Counts the registrations of all clients by the state that people see, and the assets that have failed in the last day and were
 * neither recovered, replaced nor dismissed: three keys of each client, in pages of 500. Removes those that were kept for long enough.
 * Notes the clients that are amiss, and corrects by what lists and the audit find clients.
 * @param told `broken` is called for each client whose keys cannot be read, which is not counted;
 * `notice` for each client that has a notice to claim (records/notices.ts), which the same commands find
 * @param since when this was last done, ms
 * @throws if Redis is unavailable
 */
export async function countEndpoints(
  db: Db,
  told: { broken(clientToken: string, err: unknown): void; notice(clientToken: string): void },
  since = 0,
) {
  const states: Record<EndpointState, number> = { active: 0, failing: 0, paused: 0, suspended: 0 };
  const counts = { ...states, failedAssets: 0, keptFailed: 0, attempted: 0 };
  const accounts = new Set<string | null>();
  const amiss = new Set<string>();
  const read = 'paused held state last_success_at last_failure_at former_end changed_at'.split(' ');
  const fields = [...read, ...noticeFields];

  async function readPage(page: readonly string[]) {
    const keysOf = (name: 'registration' | 'endpoint' | 'failedAt') =>
      page.map((clientToken) => db.client(clientToken)[name]);
    const [urls, endpoints, failed, entries] = await Promise.all([
      readEachKey<string | null>(db, keysOf('registration'), 'HGET', ['url']),
      readEachKey<(string | null)[]>(db, keysOf('endpoint'), 'HMGET', fields),
      readEachKey<string[]>(db, keysOf('failedAt'), 'ZRANGE', [0, 0, 'WITHSCORES']),
      db.redis.hmget(db.global.clientIndex, ...page),
    ]);
    return (i: number) => ({
      url: answerOf(urls[i] ?? null),
      endpoint: answerOf(endpoints[i] ?? []),
      oldest: answerOf(failed[i] ?? [])[1],
      entry: entries[i],
    });
  }

  async function count(clientToken: string, found: Awaited<ReturnType<typeof readPage>>, i: number) {
    const keys = db.client(clientToken);
    const { url, endpoint, oldest, entry } = found(i);
    const [paused, held, state, succeeded, hasFailed, formerEnd, changedAt, ...notices] = endpoint;
    if (!isIndexed(entry, url ?? '')) await indexClient(db, clientToken, url ?? '');
    if (formerEnd && Number(formerEnd) <= nowOf(db)) await dropFormer(db, clientToken);
    if (Number(changedAt) >= since) await noteStateChanges(db, clientToken, since);
    const { keepFailedMs, keepSegmentsSeconds } = db.settings;
    if (Number(oldest) <= nowOf(db) - keepFailedMs) await trimFailed(db, clientToken);
    if (keepSegmentsSeconds > 0) await trimUpdates(db, clientToken);
    const failed = oldest === undefined ? 0 : await db.redis.zcard(keys.failedAt);
    counts.keptFailed += failed;
    if (failed > 0) counts.failedAssets += await db.redis.zcount(keys.failedAt, nowOf(db) - dayMs, '+inf');
    const isPaused = paused === '1' || Boolean(held);
    const seen = isPaused ? 'paused' : ((state ?? 'active') as EndpointState);
    if (isAmiss({ state: seen, held: Boolean(held), failed })) amiss.add(clientToken);
    if (url !== null) counts[seen]++;
    if (url !== null && Math.max(Number(succeeded), Number(hasFailed)) > nowOf(db) - dayMs) {
      counts.attempted++;
      accounts.add(await db.redis.hget(keys.client, 'account_id'));
    }
    if (notices.some(Boolean)) told.notice(clientToken);
  }

  for await (const page of clientTokens(db)) {
    if (page.length === 0) continue;
    const found = await readPage(page);
    const counting = page.map((clientToken, i) =>
      unlessBroken(count(clientToken, found, i), async (err) => {
        told.broken(clientToken, err);
        amiss.add(clientToken);
        await db.redis.hsetnx(db.global.clientIndex, clientToken, entryOf(''));
      }),
    );
    await Promise.all(counting);
  }
  await noteAmiss(db, amiss);
  return { ...counts, attemptedAccounts: accounts.size, amiss: amiss.size };
}
