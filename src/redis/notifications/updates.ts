/** The feed of a client's updates: a stream, whose entries Redis gives ids that only rise (`add_update` in updates.lua). */
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import type { Db } from '../connection/db.js';
import { runScript } from '../connection/library.js';
import { ignore } from '../connection/unavailable.js';

/** The newest updates of a client that are kept. */
export const keptUpdates = 100_000;
const feedBeginning = '0-0';

/**
 * Returns the next updates after a position (the id of an entry), oldest first, each asset once, with its newest update among these. Without
 * a position it begins with the oldest kept one. The page is empty if nothing is new. `updatedAt`: when the event was claimed, ms.
 * @returns undefined if updates after the position may be gone: 100,000 have followed, or Redis has lost the position
 */
export async function readUpdates(db: Db, clientToken: string, limit: number, after?: string) {
  const { updates: key } = db.client(clientToken);
  const begin = after ?? feedBeginning;
  const entries = await db.redis.xrange(key, begin, '+', 'COUNT', limit + 2);
  // The script keeps one entry more, so that the entry of a position exists while 100,000 follow it.
  if (begin !== feedBeginning && entries.shift()?.[0] !== begin) return undefined;
  if (after === feedBeginning && (await db.redis.xlen(key)) > keptUpdates) return undefined;
  const page = entries.slice(0, limit);
  const newest = new Map<string, { platformId: string; notificationId: string; updatedAt: number }>();
  for (const [entry, [, notificationId = '', , platformId = '']] of page) {
    const updatedAt = Number(entry.split('-')[0]) + db.clockOffsetMs();
    // Moves the asset after those that came in between.
    newest.delete(platformId);
    newest.set(platformId, { platformId, notificationId, updatedAt });
  }
  return { updates: [...newest.values()], end: page.at(-1)?.[0] ?? begin, hasMore: entries.length > limit };
}

/** Lets callers wait for a client's next update, whichever process claims its event: over one subscription, at no cost for Redis. */
export function createUpdateWaits(db: Db) {
  /** By the channel of the client. */
  const waiting = new Map<string, Set<(isNew: boolean) => void>>();
  const pattern = db.client('*').updates.replaceAll(/[[\]?\\]/g, '\\$&');
  let subscribing: Promise<Redis> | undefined;
  /** One question at a time is enough for all who begin to wait. */
  let isAsking = false;
  let isOver = false;

  function wake(channel: string, isNew: boolean): void {
    for (const goOn of waiting.get(channel) ?? []) goOn(isNew);
  }

  /** Wakes one client's callers in each turn: the answers to 10,000 take a second, in which others' events would wait. */
  async function wakeAll(isNew: boolean): Promise<void> {
    for (const channel of [...waiting.keys()]) {
      wake(channel, isNew);
      await nextTurn();
    }
  }

  /** Begins the subscription with the first caller who waits. @throws errors of Redis; the next caller tries again */
  async function subscribe(): Promise<void> {
    // A line that a router forgot looks like one on which nothing is said: without an answer it is made again, and all look again.
    if (subscribing !== undefined && !isAsking) {
      isAsking = true;
      void subscribing
        .then((own) => (own.status === 'ready' ? own.psubscribe(pattern) : undefined))
        .catch(ignore)
        .finally(() => {
          isAsking = false;
        });
    }
    subscribing ??= open().catch((err: unknown) => {
      subscribing = undefined;
      throw err;
    });
    await subscribing;
  }

  async function open(): Promise<Redis> {
    // A connection with a subscription takes no commands; a cluster opens one beside its others.
    const own = db.nodes.isCluster
      ? db.redis
      : db.redis.duplicate({ lazyConnect: false, enableOfflineQueue: true });
    if (own !== db.redis) {
      own.on('error', (err: Error) => db.health.note(err));
      db.redis.once('end', () => own.disconnect());
    }
    own.on('pmessage', (_pattern: string, channel: string) => wake(channel, true));
    await own.psubscribe(pattern).catch((err: unknown) => {
      db.health.note(err);
      if (own !== db.redis) own.disconnect();
      throw err;
    });
    // What was said in between is lost: all look again. A cluster subscribes to another node.
    for (const event of ['ready', '-node']) own.on(event, () => void wakeAll(true));
    return own;
  }

  return {
    /** Returns how many callers wait. */
    waiting: (): number => [...waiting.values()].reduce((sum, callers) => sum + callers.size, 0),
    /** Ends every wait, also those that begin later. Node searches a signal's listeners one by one: thousands of callers add none. */
    end(): void {
      isOver = true;
      void wakeAll(false);
    },
    /**
     * Resolves as soon as there may be an entry of the client's feed after `position`; else after `waitMs`, or when `signal` aborts.
     * @returns false if nothing may be new @throws errors of Redis
     */
    async next(clientToken: string, position: string, waitMs: number, signal: AbortSignal): Promise<boolean> {
      await subscribe();
      const { updates: channel } = db.client(clientToken);
      let timer: NodeJS.Timeout | undefined;
      const callers = waiting.get(channel) ?? new Set();
      waiting.set(channel, callers);
      let goOn = (_isNew: boolean) => {};
      const found = new Promise<boolean>((resolve) => {
        goOn = resolve;
      });
      const giveUp = () => goOn(false);
      callers.add(goOn);
      try {
        const isThere = (await runScript(db, 'awaitUpdates', clientToken, [position, waitMs])) === 1;
        if (isThere || isOver || signal.aborted) return isThere;
        signal.addEventListener('abort', giveUp, { once: true });
        timer = setTimeout(giveUp, waitMs);
        return await found;
      } finally {
        clearTimeout(timer);
        signal.removeEventListener('abort', giveUp);
        callers.delete(goOn);
        if (callers.size === 0) waiting.delete(channel);
      }
    },
  };
}
