/**
 * Waits until writes are safe: on Redis' disk, and on the disks of as many replicas as configured.
 *
 * With `appendfsync always` and no replicas, every answered write is already on disk. Otherwise WAITAOF (Redis 7.2+,
 * Valkey) waits. It blocks its whole connection and covers only that connection's own writes, so it has a
 * separate connection, on which a small write comes first: all earlier writes of anyone come before that one
 * in the log. Callers that arrive during one wait share the next.
 */
import type { Redis } from 'ioredis';
import type { Logger } from '../../log.js';
import { type Db, RedisUnavailable } from './db.js';
import { watchFsync } from './fsync.js';
import { runPipeline } from './pipeline.js';

export interface Durability {
  /** Resolves once all writes answered so far are safe. @throws RedisUnavailable if that is not confirmed in time */
  reached(): Promise<void>;
  close(): void;
}

export interface DurabilityOptions {
  /** The store is durable by itself, as some managed stores are: there is no wait. */
  trusted: boolean;
  /** Replicas that must have it on their disks too. */
  ackReplicas: number;
  log: Logger;
}

const confirmWithinMs = 1500;

/** Warns the operator, once, if an answered write is on no disk. */
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
  /** @returns false if the server cannot confirm it. @throws RedisUnavailable */
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

/** The error reaches the callers who wait; these listeners only prevent an unhandled rejection. */
function ignore(): void {}
