/**
 * Keeps the index of clients that are owed something. One Redis has one sorted set; a cluster has 256, each in a
 * slot beside those of its clients, so that an unavailable node delays only its own clients, and no key takes every claim. Beside it are
 * the stopped clients, to which nothing can be sent before a change: whoever makes such a change announces the client first.
 */
import { mapInPages } from '../../promises.js';
import { type Db, nowOf, toPairs } from '../connection/db.js';
import { clientBase, partBeside, partsOf } from '../connection/keys.js';
import { evaluate, runScript } from '../connection/library.js';

/** After this time an announced claim has happened or never will. */
const unclaimedMs = 600_000;

/** For this long an announced client is known to be in the index: none is removed before `unclaimedMs`. */
const announcedMs = unclaimedMs / 2;

/** Who has claimed something within this time is in the index, or stopped; it leaves a minute for a slow claim. */
export const indexedMs = unclaimedMs - announcedMs - 60_000;

/**
 * Announces claims of a client. It is written before the claim itself, so that no owed client is ever missing from the index.
 * A recently announced client is not written again.
 * @returns false for a client that does not exist
 */
export function announceClaims(db: Db, clientToken: string): Promise<boolean> {
  const { announced } = db.nodes;
  // Unlike `performance.now`, this clock does not stand still while the machine sleeps; it may be set back.
  const at = Date.now() + db.clockOffsetMs();
  for (const [token, { atMs }] of announced) {
    if (Math.abs(at - atMs) <= announcedMs) break;
    announced.delete(token);
  }
  let known = announced.get(clientToken);
  if (known === undefined) {
    const written = announce(db, clientToken);
    written.then(
      (isWritten) => isWritten || announced.delete(clientToken),
      () => announced.delete(clientToken),
    );
    known = { atMs: at, written };
    announced.set(clientToken, known);
  }
  return known.written;
}

/** Made-up client tokens leave nothing. */
async function announce(db: Db, clientToken: string): Promise<boolean> {
  if ((await db.redis.exists(db.client(clientToken).client)) === 0) return false;
  await evaluate(db, 'announce', indexKeys(db, clientToken), [clientToken, 0]);
  return true;
}

/** Announces a change of a client, before the change: the sweep looks at the client again, if it may be owed something. */
export async function announceChange(db: Db, clientToken: string): Promise<void> {
  await evaluate(db, 'announce', indexKeys(db, clientToken), [clientToken, 1]);
}

/**
 * Removes a client from the index, unless it was announced recently.
 * @param stopped absent: it is owed nothing; else it is owed so much, can be sent nothing, and is looked at again in so many ms
 * @param steadyMs for how long Redis' clock has shown no jump, which would make an announcement look older
 */
export async function setAside(
  db: Db,
  clientToken: string,
  steadyMs: number,
  { owed, lookInMs }: { owed: number; lookInMs: number } = { owed: 0, lookInMs: 0 },
): Promise<void> {
  if (steadyMs < unclaimedMs) return;
  const args = [clientToken, unclaimedMs, owed, Math.ceil(lookInMs)];
  await evaluate(db, 'setAside', indexKeys(db, clientToken), args);
}

/** A cluster with the keys of a former single Redis has its index too. */
export async function adoptIndex(db: Db): Promise<void> {
  const { owedClients, stoppedClients: stopped } = db.global;
  if (!db.nodes.isCluster) return;
  const found = [...(await db.redis.zrange(owedClients, '0', '-1')), ...(await db.redis.hkeys(stopped))];
  await mapInPages(found, 50, (clientToken) => announceClaims(db, clientToken));
  for (const key of [owedClients, stopped]) if (found.length > 0) await db.redis.del(key);
}

/** Reads every client of the index, in pages. @param onError called for each part of the index that cannot be read */
export async function* indexedClients(db: Db, onError: (err: unknown) => void) {
  const scan = (key: string) => db.redis.zscanStream(key, { count: 500 });
  for await (const page of scanned(db, db.global.owedClients, scan, onError))
    yield page.map(([clientToken]) => clientToken);
}

/** No look is further ahead than catch-up sleeps: one that is was noted before Redis' clock was set back. */
const longestLookMs = 2 * 3_600_000;

/** Reads every stopped client, in pages. @param onError as above */
export async function* stoppedClients(db: Db, onError: (err: unknown) => void) {
  const scan = (key: string) => db.redis.hscanStream(key, { count: 500 });
  for await (const page of scanned(db, db.global.stoppedClients, scan, onError)) {
    const now = nowOf(db);
    yield page.map(([clientToken, text]) => {
      const [lookAt = 0, owed = 0] = text.split(' ').map(Number);
      return { clientToken, owed, isDue: lookAt <= now || lookAt > now + longestLookMs };
    });
  }
}

/**
 * Reads, in pages, the clients that may be owed something, have failed assets, or are failing, paused or broken: those of the index, the
 * stopped ones, and those that the sweep has found amiss. @throws if a part of the index cannot be read
 */
export async function* clientsToLookAt(db: Db): AsyncGenerator<string[]> {
  const fail = (err: unknown) => {
    throw err;
  };
  const seen = new Set<string>();
  const unseen = (page: string[]) => page.filter((token) => !seen.has(token) && seen.add(token));
  for await (const page of db.redis.sscanStream(db.global.amissClients, { count: 500 }))
    yield unseen(page as string[]);
  for await (const page of stoppedClients(db, fail)) yield unseen(page.map(({ clientToken }) => clientToken));
  for await (const page of indexedClients(db, fail)) yield unseen(page);
}

const atOnce = 1000;

/** Notes all clients that are amiss although they may be owed nothing. */
export async function noteAmiss({ redis, global }: Db, amiss: ReadonlySet<string>): Promise<void> {
  const key = global.amissClients;
  const gone = (await redis.smembers(key)).filter((token) => !amiss.has(token));
  for (const left = [...amiss]; left.length > 0; ) await redis.sadd(key, left.splice(0, atOnce));
  while (gone.length > 0) await redis.srem(key, gone.splice(0, atOnce));
}

async function* scanned(
  { nodes }: Db,
  whole: string,
  scan: (key: string) => AsyncIterable<unknown>,
  onError: (err: unknown) => void,
) {
  for (const key of partsOf(nodes.isCluster, whole)) {
    try {
      for await (const flat of scan(key)) yield toPairs(flat as string[]);
    } catch (err) {
      onError(err);
    }
  }
}

const indexKeys = ({ nodes, global, prefix }: Db, clientToken: string): string[] =>
  [global.owedClients, global.stoppedClients].map((whole) =>
    partBeside(nodes.isCluster, whole, clientBase(prefix, clientToken)),
  );

/** A catch-up that was woken and has not planned for so long is stuck. */
const stuckMs = 120_000;

/**
 * Notes that a client's catch-up wakes within `inMs`, if something is owed.
 * @returns `woken`, `replaced`: what the caller must do with it; `covered`: it wakes by then anyway, or nothing is owed
 */
export const setAlarm = (db: Db, clientToken: string, inMs: number) =>
  runScript<'covered' | 'woken' | 'replaced'>(db, 'setAlarm', clientToken, [inMs, stuckMs]);
