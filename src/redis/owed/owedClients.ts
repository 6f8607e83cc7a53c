/**
 * Keeps the index of clients that are owed something. One Redis has one sorted set; a cluster has 256, each in a
 * slot beside those of its clients, so that an unavailable node delays only its own clients, and no key takes every claim.
 */
import { type Db, toPairs } from '../connection/db.js';
import { clientBase, rangeTags, tagBeside } from '../connection/keys.js';
import { evaluate, runScript } from '../connection/library.js';

/** After this time an announced claim has happened or never will. */
const unclaimedMs = 600_000;

/** For this long an announced client is known to be in the index: none is removed before `unclaimedMs`. */
const announcedMs = unclaimedMs / 2;

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
  await evaluate(db, 'announceClaims', [indexKey(db, clientToken)], [clientToken]);
  return true;
}

/**
 * Removes a client that is owed nothing, unless a claim was announced recently.
 * @param steadyMs for how long Redis' clock has shown no jump, which would make an announcement look older
 */
export async function forgetOwedClient(db: Db, clientToken: string, steadyMs: number): Promise<void> {
  if (steadyMs < unclaimedMs) return;
  // A cluster with the keys of a former single Redis has its index too.
  for (const key of new Set([indexKey(db, clientToken), db.global.owedClients])) {
    await evaluate(db, 'forgetOwedClient', [key], [clientToken, unclaimedMs]);
  }
}

/** Reads every client of the index, in pages. @param onError called for each part of the index that cannot be read */
export async function* indexedClients(db: Db, onError: (err: unknown) => void) {
  const { owedClients, owedClientsBeside } = db.global;
  const keys = db.nodes.isCluster ? [owedClients, ...rangeTags.map(owedClientsBeside)] : [owedClients];
  for (const key of keys) {
    try {
      for await (const flat of db.redis.zscanStream(key, { count: 500 }))
        yield toPairs(flat as string[]).map(([clientToken]) => clientToken);
    } catch (err) {
      onError(err);
    }
  }
}

const indexKey = ({ nodes, global, prefix }: Db, clientToken: string): string =>
  nodes.isCluster ? global.owedClientsBeside(tagBeside(clientBase(prefix, clientToken))) : global.owedClients;

/** A catch-up that was woken and has not planned for so long is stuck. */
const stuckMs = 120_000;

/**
 * Notes that a client's catch-up wakes within `inMs`, if something is owed.
 * @returns `woken`, `replaced`: what the caller must do with it; `covered`: it wakes by then anyway, or nothing is owed
 */
export const setAlarm = (db: Db, clientToken: string, inMs: number) =>
  runScript<'covered' | 'woken' | 'replaced'>(db, 'setAlarm', clientToken, [inMs, stuckMs]);
