/** Sends the notifications of a filtered list again. */
import { mapInPages } from '../promises.js';
import { readAttemptsOf } from '../redis/notifications/notifications.js';
import { redeliver } from '../redis/notifications/redeliver.js';
import type { AttemptRecord, NotificationState } from '../redis/owed/standing.js';
import { act, type Tone } from './act.js';
import { readPage } from './notifications.js';
import { presentTime } from './present.js';
import { requireRegistration, type Subject } from './subjects.js';

/** How the last attempt ended: `failed` in any way, or with this error. */
export const isOfFailure = (attempts: readonly AttemptRecord[], failure: string | undefined): boolean => {
  const error = attempts.at(-1)?.error;
  return failure === undefined || (failure === 'failed' ? error !== undefined : error === failure);
};

interface Asked {
  client: Subject;
  state?: NotificationState | undefined;
  platform_id?: string | undefined;
  /** Accepted between these times, ms. */
  since?: number | undefined;
  until?: number | undefined;
  failure?: string | undefined;
  dry_run?: boolean;
}

const perPage = 200;
/** So many of a list are looked at. */
const pagesAtMost = 10;

/** Sends each asset of the list again, once, by the newest of its notifications that match. */
export const resend = act(
  'notification resend',
  { operator: 'support' },
  async (actor, { client, failure, dry_run = false, ...filter }: Asked, admit) => {
    const { clientToken } = client;
    const db = await actor.db();
    await requireRegistration(db, client);
    const newest = new Map<string, string>();
    let cursor: string | undefined;
    for (let i = 0; i === 0 || (cursor !== undefined && i < pagesAtMost); i++) {
      const page = await readPage(db, client, { ...filter, limit: perPage, cursor }, actor.countPiece);
      const ids = page.notifications.map(({ notificationId }) => notificationId);
      const attempts = failure === undefined ? [] : await readAttemptsOf(db, clientToken, ids);
      page.notifications.forEach(({ platformId, notificationId }, n) => {
        const isMeant = isOfFailure(attempts[n] ?? [], failure);
        if (isMeant && !newest.has(platformId)) newest.set(platformId, notificationId);
      });
      cursor = page.cursor;
    }
    let count = newest.size;
    if (!dry_run && count > 0) {
      const { state, platform_id, since, until } = filter;
      const times = { since: presentTime(since), until: presentTime(until) };
      const after = { count, state, platform_id, failure, ...times };
      await admit({ after });
      const due = await mapInPages([...newest.values()], 50, (id) =>
        actor.change((own) => redeliver(own, clientToken, id)),
      );
      // The record of a failed one may be gone.
      count = due.filter(Boolean).length;
      await actor.wake(clientToken);
    }
    const tone: Tone = count > 0 ? 'good' : 'warn';
    const covered = { since: presentTime(filter.since), until: presentTime(filter.until ?? Date.now()) };
    return { tone, client_token: clientToken, dry_run, count, ...covered, has_more: cursor !== undefined };
  },
);
