/**
 * The mark of an installation in its store: the layout of the keys, and an id. A store that has lost its data has no mark, or one that
 * another process has made since: then nothing is claimed until the data is back, or an operator says that the store is meant to be
 * empty. In a cluster each range of slots has a mark, since a node may lose its part alone.
 */
import { randomUUID } from 'node:crypto';
import { ConfigError } from '../../config.js';
import { except } from '../../promises.js';
import type { Db } from './db.js';
import { partsOf } from './keys.js';
import { partOn } from './nodes.js';
import { RedisUnavailable, refusalOf } from './unavailable.js';

/** The layout of the keys that this release reads and writes: test/redis/layout.test.ts compares it with what is written. */
const layoutVersion = 2;

const lost = 'lost ';
const idIn = (mark: string): string => mark.split(' ')[1] ?? '';

const marksOf = ({ nodes, global }: Db): string[] => partsOf(nodes.isCluster, global.layout);

const samplesOf = ({ nodes, global }: Db): string[] =>
  nodes.primaries().flatMap((node) => partOn(nodes, global.layout, node) ?? []);

/** Says that a store has another layout than this release; undefined: it has not. */
export async function layoutFault(db: Db): Promise<string | undefined> {
  // Whoever reads next says why a server does not answer.
  const marks = await Promise.all(samplesOf(db).map((key) => db.redis.get(key).catch(() => null)));
  return marks.map(faultIn).find((fault) => fault !== undefined);
}

function faultIn(mark: string | null): string | undefined {
  const layout = mark?.split(' ')[0];
  if (mark === null || mark.startsWith(lost) || layout === String(layoutVersion)) return undefined;
  const knows = `this release knows layout ${layoutVersion}`;
  return `The store has layout ${layout}, and ${knows}: nothing was changed. Use the release that wrote it.`;
}

const isFull = (err: unknown) => refusalOf(err).reason === 'full';

/** Marks an empty store with this layout, unless it is full. @throws ConfigError if the store has another one */
export async function markStore(db: Db): Promise<void> {
  const { marks } = db.health;
  const id = randomUUID();
  await Promise.all(
    marksOf(db).map(async (key) => {
      // A full Redis refuses the write, also that of a first mark.
      if ((await db.redis.exists(key)) === 0)
        await db.redis.setnx(key, `${layoutVersion} ${id}`).catch(except(isFull));
      const mark = await db.redis.get(key);
      const fault = faultIn(mark);
      if (fault !== undefined) throw new ConfigError(fault);
      if (mark !== null) marks.set(key, mark);
    }),
  );
  await checkMarks(db);
}

/** Notes whether the store has lost its data, and says so to the other processes. @throws errors of Redis */
export async function checkMarks(db: Db): Promise<void> {
  const { health } = db;
  const found = await Promise.all(samplesOf(db).map((key) => isLost(db, key)));
  health.noteEmptied(found.includes(true));
}

async function isLost(db: Db, key: string): Promise<boolean> {
  const { marks } = db.health;
  const known = marks.get(key);
  const mark = await db.redis.get(key);
  if (mark?.startsWith(lost)) return true;
  if (mark === null) {
    // A full Redis had no place for it.
    if (known === undefined) return false;
    await db.redis.setnx(key, lost + idIn(known));
    return true;
  }
  const isSame =
    known === undefined || known === mark || known.startsWith(lost) || mark.endsWith(` after ${idIn(known)}`);
  if (isSame) marks.set(key, mark);
  else await db.redis.set(key, lost + idIn(known));
  return !isSame;
}

/** @throws RedisUnavailable if the store has lost its data */
export function requireData({ health }: Pick<Db, 'health'>): void {
  if (health.isEmptied) throw new RedisUnavailable('the store has lost its data');
}

/** Returns the id of the installation's store, then the one that it had before it was emptied on purpose; none before its first mark. */
export async function storeIds(db: Db): Promise<string[]> {
  const [, id, , former] = ((await db.redis.get(marksOf(db)[0] ?? '')) ?? '').split(' ');
  return [id, former].filter((one) => one !== undefined);
}

/** Says how the store stands: `unmarked`: no process has begun on it, or it was emptied while none ran. */
export async function readMarks(db: Db): Promise<'marked' | 'unmarked' | 'lost'> {
  const found = await Promise.all(samplesOf(db).map((key) => db.redis.get(key)));
  if (found.some((mark) => mark?.startsWith(lost))) return 'lost';
  return found.includes(null) ? 'unmarked' : 'marked';
}

/** Says that a store that has lost its data is meant to be empty. @returns false if it has lost none */
export async function acceptEmpty(db: Db): Promise<boolean> {
  const keys = marksOf(db);
  const marks = await Promise.all(keys.map((key) => db.redis.get(key)));
  if (!marks.some((mark) => mark?.startsWith(lost))) return false;
  const id = randomUUID();
  const known = marks.find((mark) => mark !== null);
  await Promise.all(
    keys.map((key, i) => db.redis.set(key, `${layoutVersion} ${id} after ${idIn(marks[i] ?? known ?? '')}`)),
  );
  return true;
}
