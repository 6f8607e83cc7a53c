/**
 * Waiting until what was written is on Redis' disk (WAITAOF; Redis 7.2+, Valkey).
 *
 * WAITAOF holds up its whole connection and looks at that connection's own writes. So it has a connection of its
 * own, on which a small write comes before it: what was written earlier, by anyone, lies before that in the log.
 * Callers that come while one wait is under way share the next.
 */
import type { Redis } from 'ioredis';
import type { Logger } from '../log.js';
import { type Db, RedisUnavailable } from './db.js';
import { runPipeline } from './pipeline.js';

/** How long a server that cannot say what is on its disk is given (`appendfsync everysec` and some more). */
export const unconfirmedMs = 2000;

/** Tells the operator, once, where a write is on no disk when it is answered. */
export async function warnUnlessDurable(db: Db, log: Logger): Promise<void> {
  if (await waitForDisk(db).catch(() => true)) return;
  log.warn(
    'redis is not durable: it has no append-only file (appendonly yes), or cannot say what is in it (WAITAOF). ' +
      'What it loses in a crash is lost',
  );
}

/** The caller gives it `unconfirmedMs` then. @returns false where the server cannot say (no WAITAOF, or no AOF). @throws RedisUnavailable after `timeoutMs` */
export async function waitForDisk(db: Db, timeoutMs = 1500): Promise<boolean> {
  const disk = diskOf(db.redis);
  disk.next ??= disk.current.then(() => {
    disk.next = undefined;
    const wait = reachDisk(db, disk.connection, timeoutMs);
    disk.current = wait.then(ignore, ignore);
    return wait;
  });
  return await disk.next;
}

interface Disk {
  connection: Redis;
  current: Promise<void>;
  next: Promise<boolean> | undefined;
}

const disks = new WeakMap<Redis, Disk>();

function diskOf(redis: Redis): Disk {
  const known = disks.get(redis);
  if (known) return known;
  const connection = redis.duplicate({
    commandTimeout: 2500,
    socketTimeout: 3000,
    enableOfflineQueue: true,
  });
  connection.on('error', ignore);
  redis.once('end', () => connection.disconnect());
  const disk: Disk = { connection, current: Promise.resolve(), next: undefined };
  disks.set(redis, disk);
  return disk;
}

async function reachDisk(db: Db, connection: Redis, timeoutMs: number): Promise<boolean> {
  let answer: unknown;
  try {
    const commands = connection.pipeline().set(db.global.diskMark, Date.now());
    [, answer] = await runPipeline(commands.call('WAITAOF', 1, 0, timeoutMs) as typeof commands);
  } catch (err) {
    if (err instanceof Error && /unknown command|appendonly is disabled/i.test(err.message)) return false;
    throw new RedisUnavailable('redis did not confirm that a write is on disk', { cause: err });
  }
  if (!Array.isArray(answer) || Number(answer[0]) < 1) {
    throw new RedisUnavailable('redis did not confirm in time that a write is on disk');
  }
  return true;
}

/** The error reaches whoever waits; these listeners only keep it from being unhandled as well. */
function ignore(): void {}
