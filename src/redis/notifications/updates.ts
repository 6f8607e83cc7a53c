/** The feed of a client's updates: each asset once, by its newest update (`add_update` in updates.lua). */
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import { shared } from '../../constants.js';
import { assetSlot, idOfAnswer, withSlots } from '../../ids.js';
import { type Db, nowOf, toPairs } from '../connection/db.js';
import { runScript } from '../connection/library.js';
import { ignore } from '../connection/unavailable.js';

/** Where a reader continues: a position, and the asset that was there ('': none was); `isCursor`: all before it was read. */
export type Place = { position: number; platformId: string; isCursor?: boolean };

export const feedBeginning: Place = { position: 0, platformId: '' };

/** Returns the place before every update that was claimed at a time (ms) or later: no position is less than its time. */
export const placeBefore = (ms: number): Place => ({ position: Math.max(ms * 1000 - 1, 0), platformId: '' });

export interface Update {
  platformId: string;
  /** The asset's last notification; undefined if its newest update made none: there was no URL. */
  notificationId?: string | undefined;
  /** When its event was claimed, us. */
  updatedAtUs: number;
}

/** Reads what `write_known` in known.lua has noted of an asset's newest update; undefined if there is none. */
export function updateIn(known: Buffer | null): Omit<Update, 'platformId'> | undefined {
  const packed = known?.readBigUInt64BE(shared.knownHeaderBytes - 8) ?? 0n;
  if (known === null || packed === 0n) return undefined;
  const isNotified = (packed & 1n) === 1n;
  return {
    updatedAtUs: Number(packed >> 8n),
    ...(isNotified && { notificationId: idOfAnswer(known.subarray(4, 20)) }),
  };
}

/**
 * Returns the next updates after a place. An asset of which nothing is known any more leaves the feed.
 * @returns undefined if updates after the place may be gone: Redis has lost some, or the time of their segments is over
 */
export async function readUpdates(db: Db, clientToken: string, limit: number, after = feedBeginning) {
  const keys = db.client(clientToken);
  const lost = db.nodes.lost.get(db.nodes.ownerOf(keys.feed) as Redis);
  // The asset that was there may have been updated since: then the feed does not show that others are missing.
  const isLost = lost && after.position > lost.from * 1000 && after.position < lost.at * 1000;
  if (isLost && after.platformId !== '') return undefined;
  const { bucket, field } = assetSlot(after.platformId);
  const keptMs = db.settings.keepSegmentsSeconds * 1000;
  const args = [after.position, after.platformId, bucket, field, limit + 1, keptMs, after.isCursor ? 1 : 0];
  const [isGone, ...flat] = await runScript<[number, ...string[]]>(db, 'readUpdates', clientToken, args);
  if (isGone === 1) return undefined;
  const entries = toPairs(flat);
  const page = entries.slice(0, limit);
  const slots = page.map(([platformId]) => assetSlot(platformId));
  const known = await Promise.all(
    slots.map((slot) => db.redis.hgetBuffer(keys.known(slot.bucket), slot.field)),
  );
  const updates: Update[] = [];
  const unknown: string[] = [];
  for (const [i, [platformId]] of page.entries()) {
    const update = updateIn(known[i] ?? null);
    if (update !== undefined) updates.push({ platformId, ...update });
    else unknown.push(platformId);
  }
  if (unknown.length > 0) await runScript(db, 'dropUpdates', clientToken, withSlots(unknown));
  const [platformId, position] = page.at(-1) ?? [after.platformId, after.position];
  const end: Place = { platformId, position: Number(position), isCursor: true };
  return { updates, end, hasMore: entries.length > limit };
}

/** Returns since when the feed is complete, ms; undefined: it is complete at any age. */
export function feedSince(db: Db): number | undefined {
  const { keepSegmentsSeconds: kept } = db.settings;
  return kept === 0 ? undefined : nowOf(db) - kept * 1000;
}

const triedAtOnce = 200;

/** Tries some assets of the feed at random, and removes those of which nothing is known any more. */
export async function trimUpdates(db: Db, clientToken: string): Promise<void> {
  const keys = db.client(clientToken);
  const some = (await db.redis.zrandmember(keys.feed, triedAtOnce)) as string[];
  if (some.length > 0) await runScript(db, 'dropUpdates', clientToken, withSlots(some));
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
    const close = () => own.disconnect();
    if (own !== db.redis) {
      own.on('error', (err: Error) => db.health.note(err));
      db.redis.once('end', close);
    }
    await own.psubscribe(pattern).catch((err: unknown) => {
      db.health.note(err);
      db.redis.off('end', close);
      if (own !== db.redis) own.disconnect();
      throw err;
    });
    // Nobody waits before.
    own.on('pmessage', (_pattern: string, channel: string) => wake(channel, true));
    // What was said in between is lost: all look again. A cluster subscribes to another node.
    for (const event of ['ready', '-node']) own.on(event, () => void wakeAll(true));
    return own;
  }

  return {
    waiting: (): number => [...waiting.values()].reduce((sum, callers) => sum + callers.size, 0),
    /** Ends every wait, also those that begin later. Node searches a signal's listeners one by one: thousands of callers add none. */
    end(): void {
      isOver = true;
      void wakeAll(false);
    },
    /**
     * Resolves as soon as there may be an update of the client after a place; else after `waitMs`, or when `signal` aborts.
     * @returns false if nothing may be new @throws errors of Redis
     */
    async next(clientToken: string, { position }: Place, waitMs: number, signal: AbortSignal) {
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
