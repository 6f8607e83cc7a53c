/**
 * Waits until writes to one server are safe.
 *
 * With `appendfsync always` and no replicas, every answered write is already on disk. Otherwise WAITAOF (Redis 7.2+,
 * Valkey) waits. It blocks its whole connection and covers only that connection's own writes, so it has a
 * separate connection, on which a small write comes first: all earlier writes of anyone come before that one
 * in the log. Callers that arrive during one wait share the next.
 */
import type { Redis } from 'ioredis';
import type { Logger } from '../../log.js';
import { retryStrategy } from './connectionSettings.js';
import { type Db, RedisUnavailable } from './db.js';
import { watchFsync } from './fsync.js';
import { runPipeline } from './pipeline.js';

export interface NodeDurability {
  /** Resolves once all writes that this server has answered are safe. @throws RedisUnavailable if that is not confirmed in time */
  reached(): Promise<void>;
  /** Resolves after the first question whether the server can confirm writes. */
  asked(): Promise<void>;
  close(): void;
}

const confirmWithinMs = 1500;
/** How often a server that could not confirm writes is asked again: an operator may change its settings at any time. */
const askAgainMs = 30_000;

/** Tells the operator when writes are no longer safe, and when they are again. */
export function watchNode(db: Db, node: Redis, ackReplicas: number, log: Logger): NodeDurability {
  const fsync = watchFsync(node);
  const disk = openDisk(db, node, ackReplicas);
  let canConfirm = true;
  let askAgainAt = 0;
  /** How often the connection was lost: then another server may answer, without the writes in question. */
  let losses = 0;
  const lost = () => {
    losses++;
    askAgainAt = 0;
  };
  node.on('close', lost);

  async function confirm(): Promise<void> {
    const before = losses;
    const can = await disk.wait();
    if (losses !== before)
      throw new RedisUnavailable('the connection to redis was lost before it confirmed a write');
    if (!can) askAgainAt = performance.now() + askAgainMs;
    note(can);
  }

  function note(can: boolean): void {
    if (can === canConfirm) return;
    canConfirm = can;
    if (can) log.info('redis is durable again: it confirms that writes are on its disk');
    else {
      log.warn(
        'redis is not durable: it has no append-only file (appendonly yes), or cannot confirm writes (WAITAOF). ' +
          'A crash loses accepted writes. If the store is durable by itself, set REDIS_DURABILITY=trusted',
      );
    }
  }

  return {
    async reached() {
      if (ackReplicas === 0 && fsync.always()) {
        note(true);
        return;
      }
      if (canConfirm || ackReplicas > 0 || performance.now() >= askAgainAt) await confirm();
      if (!canConfirm && ackReplicas > 0) {
        throw new RedisUnavailable('redis cannot say which writes its replicas have on disk');
      }
    },
    async asked() {
      await fsync.asked;
      // Redis may be unavailable: the first caller who waits is told so.
      if (!fsync.always() || ackReplicas > 0) await confirm().catch(ignore);
    },
    close() {
      node.off('close', lost);
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

function openDisk(db: Db, node: Redis, ackReplicas: number): Disk {
  const connection = node.duplicate({
    commandTimeout: 2500,
    socketTimeout: 3000,
    enableOfflineQueue: true,
    lazyConnect: true,
    retryStrategy,
  });
  connection.on('error', ignore);
  let current: Promise<void> = Promise.resolve();
  let next: Promise<boolean> | undefined;
  return {
    wait() {
      next ??= current.then(() => {
        next = undefined;
        const wait = reachDisk(db, node, connection, ackReplicas);
        current = wait.then(ignore, ignore);
        return wait;
      });
      return next;
    },
    close: () => connection.disconnect(),
  };
}

async function reachDisk(db: Db, node: Redis, connection: Redis, ackReplicas: number): Promise<boolean> {
  let answer: unknown;
  try {
    answer = await markAndWait(db, node, connection, ackReplicas);
  } catch (err) {
    if (err instanceof Error && /unknown command|appendonly is disabled/i.test(err.message)) return false;
    throw new RedisUnavailable('redis did not confirm that a write is on disk', { cause: err });
  }
  const [here, replicas] = (Array.isArray(answer) ? answer : [0, 0]).map(Number) as [number, number];
  if (here < 1 || replicas < ackReplicas) {
    throw new RedisUnavailable('redis did not confirm in time that a write is on disk');
  }
  // Sentinels may have named another primary to the connection that asks.
  if (node.options.sentinels && serverOf(node) !== serverOf(connection)) {
    connection.disconnect(true);
    throw new RedisUnavailable('the confirmation of a write came from another redis than the write');
  }
  return true;
}

/** Writes a small key of this node, and waits. If its slot is being moved, tries another key. */
async function markAndWait(db: Db, node: Redis, connection: Redis, ackReplicas: number): Promise<unknown> {
  let mark: string | undefined;
  for (let tries = 1; ; tries++) {
    mark = db.nodes.keyOn(node, db.global.diskMark, mark);
    if (mark === undefined) throw new RedisUnavailable('this node of redis has no slot left');
    try {
      const commands = connection.pipeline().set(mark, Date.now());
      const wait = commands.call('WAITAOF', 1, ackReplicas, confirmWithinMs) as typeof commands;
      const [, answer] = await runPipeline(wait);
      return answer;
    } catch (err) {
      if (tries === 3 || !(err instanceof Error && /^(MOVED|ASK|TRYAGAIN) /.test(err.message))) throw err;
    }
  }
}

const serverOf = ({ stream }: Redis): string => `${stream.remoteAddress}:${stream.remotePort}`;

/** The error reaches the callers who wait; these listeners only prevent an unhandled rejection. */
function ignore(): void {}
