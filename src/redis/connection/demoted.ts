/** Leaves a server that takes no writes any more, once another one does. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import { ignore, isReadOnly } from './unavailable.js';

const lookAgainMs = 500;

/**
 * A demoted primary keeps its connections, and answers reads. Returns what hears of each error: when a write was refused, a new
 * connection tries one. Only if that leads to a server that takes writes, the connections to the demoted one are given up: reconnecting
 * for each refused write would fail what is under way, and tell that Redis is away.
 * @param name of a key that does not exist
 */
export function leaveDemoted(redis: Redis, name: string): (err: Error) => false {
  const stop = () => null;
  let isLooking = false;
  const look = async () => {
    const other = redis.duplicate({
      lazyConnect: true,
      retryStrategy: stop,
      sentinelRetryStrategy: stop,
      reconnectOnError: null,
    });
    other.on('error', ignore);
    try {
      await other.connect();
      await other.persist(name);
      if (redis.status === 'ready') redis.disconnect(true);
    } catch {
      // The next refused write has it look again.
    } finally {
      other.disconnect();
    }
    await sleep(lookAgainMs, undefined, { ref: false });
    isLooking = false;
  };
  return (err) => {
    if (isReadOnly(err) && !isLooking) {
      isLooking = true;
      void look();
    }
    return false;
  };
}
