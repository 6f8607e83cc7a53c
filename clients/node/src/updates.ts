import { AccessToken } from './accessToken.js';
import { type Answer, Caller, checkNumber, isPassing, problemOf, type ServiceOptions } from './call.js';
import { type Reconciled, type Update, type UpdatePage, UpdatesRefused } from './types.js';

export { type Reconciled, type ServiceOptions, type Update, type UpdatePage, UpdatesRefused };

export interface UpdatesAsked {
  /** The client whose updates are read. */
  clientToken: string;
  /** The `next_cursor` that was kept last; if absent, from the oldest update that the service keeps. */
  cursor?: string | undefined;
  /** The most updates of a page, 1 to 1,000; default 1,000. */
  limit?: number;
  /** For how many seconds a call waits for an update, 0 to 20; default 20. */
  waitSeconds?: number;
  /** The pause after an empty page, a day at most; default 1,000. */
  pauseMs?: number;
  /** Ends the iteration. */
  signal?: AbortSignal;
}

export interface ReconcileAsked {
  /** The client whose updates are compared. */
  clientToken: string;
  /** Compare no update before this time, ms. */
  sinceMs?: number;
  /** Compare no update after this time, ms; default 5 minutes ago, so that your table was read later. */
  untilMs?: number;
  /** The most updates of a page, 1 to 1,000; default 1,000. */
  limit?: number;
}

/** Of a Date. */
const maxTimeMs = 8.64e15;

/** Reads the updates of an account's clients, for customers who prefer asking to receiving. */
export class UpdatesClient {
  constructor(private readonly options: ServiceOptions) {}

  /**
   * Yields each page that has updates, until the caller ends the iteration. Keep a page's `next_cursor` once you have
   * processed its updates: an iteration that begins with it skips nothing.
   * @throws UpdatesRefused if asking again cannot help, for instance with the code `cursor_expired`; RangeError for a useless option
   */
  async *updates(asked: UpdatesAsked): AsyncGenerator<UpdatePage, void, void> {
    const caller = new Caller(this.options);
    const token = new AccessToken(this.options, caller, 'push_notifications');
    const { clientToken, limit = 1000, waitSeconds = 20, pauseMs = 1000, signal } = asked;
    if (!clientToken) throw new RangeError('clientToken must not be empty');
    checkNumber('limit', limit, 1000);
    checkNumber('waitSeconds', waitSeconds, 20, 0);
    checkNumber('pauseMs', pauseMs, 86_400_000, 0);
    const end = () => caller.end();
    signal?.addEventListener('abort', end, { once: true });
    if (signal?.aborted) end();
    try {
      for (let cursor = asked.cursor; ; ) {
        const query = { client_token: clientToken, limit: `${limit}`, wait: `${waitSeconds}` };
        const page = await nextPage(caller, token, { ...query, ...(cursor && { cursor }) });
        if (page === undefined) return;
        cursor = page.next_cursor;
        if (page.updates.length > 0) yield page;
        else await caller.wait(pauseMs);
        if (caller.isEnded) return;
      }
    } finally {
      signal?.removeEventListener('abort', end);
      end();
    }
  }

  /**
   * Compares what your receiver has stored with all updates of a client, and returns those that it misses. An update counts once the
   * service has delivered all that was published until then (`delivered_until`).
   * @param stored `platform_id` and `webhook-id` of each notification
   * @throws UpdatesRefused, RangeError
   */
  async reconcile(
    stored: Iterable<readonly [string, string]> | AsyncIterable<readonly [string, string]>,
    asked: ReconcileAsked,
  ): Promise<Reconciled> {
    const { clientToken, sinceMs = 0, limit = 1000 } = asked;
    if (!clientToken) throw new RangeError('clientToken must not be empty');
    checkNumber('limit', limit, 1000);
    // With what is no time, nothing would count as missing.
    checkNumber('sinceMs', sinceMs, maxTimeMs, 0);
    let untilMs = asked.untilMs ?? Date.now() - 300_000;
    checkNumber('untilMs', untilMs, maxTimeMs, 0);
    const held = new Set<string>();
    for await (const row of stored) held.add(row.join('\t'));
    const caller = new Caller(this.options);
    const token = new AccessToken(this.options, caller, 'push_notifications');
    const newest = new Map<string, Update>();
    const query = { client_token: clientToken, limit: `${limit}` };
    let completeSince: string | null | undefined;
    for (
      let more: Record<string, string> = sinceMs > 0 ? { since: new Date(sinceMs).toISOString() } : {};
      ;
    ) {
      const page = await nextPage(caller, token, { ...query, ...more });
      if (page === undefined) break;
      if (!('cursor' in more)) {
        completeSince = page.complete_since;
        untilMs = Math.min(untilMs, Date.parse(page.delivered_until ?? '') || untilMs);
      }
      for (const update of page.updates) {
        newest.delete(update.platform_id);
        newest.set(update.platform_id, update);
      }
      more = { cursor: page.next_cursor };
      if (!page.has_more) break;
    }
    const compared = [...newest.values()].filter(({ updated_at }) => {
      const at = Date.parse(updated_at);
      return at >= sinceMs && at <= untilMs;
    });
    const missing = compared.filter((one) => !held.has(`${one.platform_id}\t${one.notification_id}`));
    const until = new Date(untilMs).toISOString();
    return {
      missing,
      compared: compared.length,
      nothing_compared: untilMs < sinceMs,
      until,
      ...(completeSince && { complete_since: completeSince }),
    };
  }
}

/** Asks until there is an answer; returns undefined if the caller was ended first. @throws UpdatesRefused */
async function nextPage(
  caller: Caller,
  token: AccessToken,
  query: Record<string, string>,
): Promise<UpdatePage | undefined> {
  const path = `/updates?${new URLSearchParams(query)}`;
  for (let failures = 1; ; failures++) {
    const answer = await token.call((authorization) =>
      caller.call('GET', path, 'updates', { headers: { authorization } }, Number(query.wait ?? 0) * 1000),
    );
    if (caller.isEnded) return undefined;
    if (answer.status === 200) return answer.body as unknown as UpdatePage;
    if (!isPassing(answer)) throw refusedBy(answer);
    caller.tell(answer, failures, 'updates are asked for again');
    await caller.pause(answer, failures);
  }
}

function refusedBy(answer: Answer): UpdatesRefused {
  const { code, msg } = problemOf(answer);
  return new UpdatesRefused(code, msg);
}
