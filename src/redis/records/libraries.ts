/**
 * Earlier releases have left their scripts in the servers, 127 KB each. A library belongs to a server, and another installation may use it:
 * an installation deletes only those of which it has noted that its processes used them, in the hash of installation.ts:
 *   library:<name>   when a process last said that it uses it, ms
 * Whoever misses a library that was deleted loads it with its next call (library.ts).
 */
import type { Redis } from 'ioredis';
import type { Logger } from '../../log.js';
import { except } from '../../promises.js';
import { type Db, timeAt } from '../connection/db.js';
import { evaluate, libraryName } from '../connection/library.js';
import { onOwnConnection, whileOpen } from '../connection/nodes.js';
import { ignore, isDeleted } from '../connection/unavailable.js';

const prefix = 'library:';
const sayEveryMs = 3_600_000;
const unusedMs = 86_400_000;

/** Says now and every hour that this process uses its library, and deletes those that none of the installation has used for a day. */
export async function joinLibraries(db: Db, log: Logger): Promise<void> {
  const say = async () => {
    const { installation } = db.global;
    const noted = [prefix + libraryName, await timeAt(db, installation)];
    await evaluate(db, 'noteFields', [installation], noted);
  };
  whileOpen(db.redis, sayEveryMs, () => say().catch(ignore));
  try {
    await say();
    const left = await deleteUnused(db);
    if (left.length > 0) log.info({ libraries: left }, 'deleted the scripts of earlier releases from redis');
  } catch (err) {
    // They only take memory: the next start tries again.
    log.debug({ err }, 'scripts of earlier releases stay in redis');
  }
}

/** @returns their names. @throws errors of Redis, such as that its user may not */
async function deleteUnused(db: Db): Promise<string[]> {
  const { installation } = db.global;
  const [noted, now] = await Promise.all([notedIn(db), timeAt(db, installation)]);
  const unused = [...noted].flatMap(([name, atMs]) => (now - atMs > unusedMs ? [name] : []));
  if (unused.length === 0) return [];
  // On a connection of its own: a server that refuses this refuses nothing that the service needs.
  const servers = db.nodes.primaries();
  await Promise.all(servers.map((server) => onOwnConnection(server, (own) => deleteFrom(own, unused))));
  await Promise.all(unused.map((name) => db.redis.hdel(installation, prefix + name)));
  return unused;
}

async function deleteFrom(server: Redis, names: readonly string[]): Promise<void> {
  const there = new Set(await namesIn(server));
  // Another process that starts was faster.
  for (const name of names)
    if (there.has(name)) await server.call('FUNCTION', ['DELETE', name]).catch(except(isDeleted));
}

/** Returns how many libraries of this service a server has, and of these how many this installation has noted. @throws errors of Redis */
export async function countLibraries(db: Db, server: Redis): Promise<{ all: number; noted: number }> {
  const [names, noted] = await Promise.all([namesIn(server), notedIn(db)]);
  return { all: names.length, noted: names.filter((name) => noted.has(name)).length };
}

async function namesIn(server: Redis): Promise<string[]> {
  const found = (await server.call('FUNCTION', ['LIST', 'LIBRARYNAME', 'asset_update_*'])) as unknown[][];
  return found.map((fields) => String(fields[fields.indexOf('library_name') + 1]));
}

async function notedIn(db: Db): Promise<Map<string, number>> {
  const fields = Object.entries(await db.redis.hgetall(db.global.installation));
  return new Map(
    fields.flatMap(([name, atMs]) =>
      name.startsWith(prefix) ? [[name.slice(prefix.length), Number(atMs)] as const] : [],
    ),
  );
}
