/**
 * When a write is safe: on Redis' disk, and on those of as many replicas as asked for.
 *
 * With `appendfsync always` and no replicas asked for Redis has on its disk what it has answered. Otherwise WAITAOF says
 * so (Redis 7.2+, Valkey): it holds up its whole connection and looks at that connection's own writes, so it has a
 * connection of its own, on which a small write comes before it: what was written earlier, by anyone, lies before that
 * in the log. Callers that come while one wait is under way share the next.
 */
import type { Redis } from 'ioredis';
import type { Logger } from '../../log.js';
import { type Db, RedisUnavailable } from './db.js';
import { watchFsync } from './fsync.js';
import { runPipeline } from './pipeline.js';

export interface Durability {
  /** Resolves once all that Redis has answered so far is safe. @throws RedisUnavailable where that is not confirmed in time */
  reached(): Promise<void>;
  close(): void;
}

export interface DurabilityOptions {
  /** The store is durable by itself, as a managed one says of itself: nothing is waited for. */
  trusted: boolean;
  /** Replicas that must have it on their disks too. */
  ackReplicas: number;
  log: Logger;
}

const confirmWithinMs = 1500;

/** Tells the operator, once, where a write is on no disk when it is answered. */
export async function openDurability(db: Db, options: DurabilityOptions): Promise<Durability> {
  if (options.trusted) return { reached: () => Promise.resolve(), close: () => undefined };
  const fsync = watchFsync(db);
  const { ackReplicas } = options;
  const disk = openDisk(db, ackReplicas);
  let canConfirm = true;
  await fsync.asked;
  if (!fsync.always() || ackReplicas > 0) canConfirm = await disk.wait().catch(() => true);
  if (!canConfirm) {
    options.log.warn(
      'redis is not durable: it has no append-only file (appendonly yes), or cannot confirm writes (WAITAOF). ' +
        'A crash loses accepted writes. If the store is durable by itself, set REDIS_DURABILITY=trusted',
    );
  }
  return {
    async reached() {
      if (ackReplicas === 0 && fsync.always()) return;
      if (canConfirm || ackReplicas > 0) canConfirm = await disk.wait();
      if (!canConfirm && ackReplicas > 0) {
        throw new RedisUnavailable('redis cannot say which writes its replicas have on disk');
      }
    },
    close() {
      fsync.close();
      disk.close();
    },
  };
}

interface Disk {
  /** @returns false where the server cannot say. @throws RedisUnavailable */
  wait(): Promise<boolean>;
  close(): void;
}

function openDisk(db: Db, ackReplicas: number): Disk {
  const connection = db.redis.duplicate({
    commandTimeout: 2500,
    socketTimeout: 3000,
    enableOfflineQueue: true,
    lazyConnect: true,
  });
  connection.on('error', ignore);
  let current: Promise<void> = Promise.resolve();
  let next: Promise<boolean> | undefined;
  return {
    wait() {
      next ??= current.then(() => {
        next = undefined;
        const wait = reachDisk(db, connection, ackReplicas);
        current = wait.then(ignore, ignore);
        return wait;
      });
      return next;
    },
    close: () => connection.disconnect(),
  };
}

async function reachDisk(db: Db, connection: Redis, ackReplicas: number): Promise<boolean> {
  let answer: unknown;
  try {
    const commands = connection.pipeline().set(db.global.diskMark, Date.now());
    [, answer] = await runPipeline(
      commands.call('WAITAOF', 1, ackReplicas, confirmWithinMs) as typeof commands,
    );
  } catch (err) {
    if (err instanceof Error && /unknown command|appendonly is disabled/i.test(err.message)) return false;
    throw new RedisUnavailable('redis did not confirm that a write is on disk', { cause: err });
  }
  const [here, replicas] = (Array.isArray(answer) ? answer : [0, 0]).map(Number) as [number, number];
  if (here < 1 || replicas < ackReplicas) {
    throw new RedisUnavailable('redis did not confirm in time that a write is on disk');
  }
  return true;
}

/** The error reaches whoever waits; these listeners only keep it from being unhandled as well. */
function ignore(): void {}
