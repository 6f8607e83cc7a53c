/** Makes notifications due or owed again, or cancels them, for operators and publishers. */
import { restsBetweenSteps } from '../../promises.js';
import { type Db, timeAt } from '../connection/db.js';
import { runScript } from '../connection/library.js';
import { ignore } from '../connection/unavailable.js';
import { announceChange, announceClaims } from '../owed/owedClients.js';

/** Cancels a waiting notification, for an operator. @returns false if it does not wait (any more) */
export async function cancelNotification(db: Db, clientToken: string, notificationId: string) {
  await announceChange(db, clientToken);
  return (await runScript(db, 'cancel', clientToken, [notificationId])) === 1;
}

/**
 * Sends a notification again: a waiting one is due now, an ended one is owed again. If another of its asset is owed or has failed, that one
 * is due. The caller wakes catch-up.
 * @returns the id of the notification that is due now; undefined if it is not kept any more
 */
export async function redeliver(db: Db, clientToken: string, notificationId: string) {
  // From here on the sweep knows this client, even if the rest fails.
  await announceClaims(db, clientToken);
  return (await runScript<string>(db, 'redeliver', clientToken, [notificationId])) || undefined;
}

/** A span of time. `dryRun` only counts. Times are ms. */
export type Range = { since: number; until?: number | undefined; dryRun: boolean };

/** Removes failed assets that were kept for long enough. @returns how many: 200 at most */
export const trimFailed = (db: Db, clientToken: string): Promise<number> =>
  runScript(db, 'trimFailed', clientToken, [db.settings.keepFailedMs]);

/** Each step blocks Redis for some milliseconds. */
const failedPerStep = 200;

/**
 * Makes failed assets owed again whose notification failed in that time, the oldest first, in steps that are each safe to repeat.
 * Without `until` the clock of Redis may have been set back since a failure. The caller wakes catch-up.
 * @param atMost so many assets @param progress is told after each step how many assets are owed again
 * @returns `count`: assets that are owed again (or would be); `more`: those that are left; `until`: by the clock that notes failures
 */
export const recoverFailed = eachFailed('recoverFailed', announceClaims);

/** Lets failed assets of that time go: their notifications end as cancelled. Otherwise as `recoverFailed`. */
export const dismissFailed = eachFailed('dismissFailed');

/** @param begins goes before the first change */
function eachFailed(
  script: 'recoverFailed' | 'dismissFailed',
  begins: (db: Db, clientToken: string) => unknown = ignore,
) {
  return async (
    db: Db,
    clientToken: string,
    { since, until, dryRun }: Range,
    atMost = Number.POSITIVE_INFINITY,
    progress: (count: number) => void = ignore,
  ) => {
    if (!dryRun) await begins(db, clientToken);
    const { failedAt } = db.client(clientToken);
    const now = await timeAt(db, failedAt);
    const [, newest = 0] =
      until === undefined ? await db.redis.zrange(failedAt, '-1', '-1', 'WITHSCORES') : [];
    const till = until ?? Math.max(now, Number(newest));
    const span = [Math.max(since, now - db.settings.keepFailedMs), till] as const;
    if (dryRun) {
      const failed = await db.redis.zcount(failedAt, ...span);
      const count = Math.min(failed, atMost);
      return { count, more: failed - count, until: till };
    }
    const rest = restsBetweenSteps();
    for (let count = 0; ; ) {
      const args = [...span, Math.min(failedPerStep, atMost - count)];
      const [done, more] = await runScript<[number, number]>(db, script, clientToken, args);
      count += done;
      if (more === 0 || count >= atMost) return { count, more, until: till };
      progress(count);
      await rest();
    }
  };
}
