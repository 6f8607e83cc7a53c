import { AccessToken } from './accessToken.js';
import { type Answer, Caller, isPassing, problemOf, type ServiceOptions } from './call.js';
import { type Update, type UpdatePage, UpdatesRefused } from './types.js';

export { type ServiceOptions, type Update, type UpdatePage, UpdatesRefused };

export interface UpdatesAsked {
  /** The client whose updates are read. */
  clientToken: string;
  /** The `next_cursor` that was kept last; if absent, from the oldest update that the service keeps. */
  cursor?: string | undefined;
  /** The most updates of a page, 1 to 1,000; default 1,000. */
  limit?: number;
  /** For how many seconds a call waits for an update, 0 to 20; default 20. */
  waitSeconds?: number;
  /** The pause after an empty page; default 1,000. */
  pauseMs?: number;
  /** Ends the iteration. */
  signal?: AbortSignal;
}

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
    const end = () => caller.end();
    signal?.addEventListener('abort', end, { once: true });
    if (signal?.aborted) end();
    try {
      for (let cursor = asked.cursor; ; ) {
        const query = { client_token: clientToken, limit: `${limit}`, wait: `${waitSeconds}` };
        const path = `/updates?${new URLSearchParams({ ...query, ...(cursor && { cursor }) })}`;
        const page = await nextPage(caller, token, path, waitSeconds * 1000);
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
}

/** Asks until there is an answer; returns undefined if the caller was ended first. @throws UpdatesRefused */
async function nextPage(
  caller: Caller,
  token: AccessToken,
  path: string,
  waitMs: number,
): Promise<UpdatePage | undefined> {
  for (let failures = 1; ; failures++) {
    const answer = await token.call((authorization) =>
      caller.call('GET', path, 'updates', { headers: { authorization } }, waitMs),
    );
    if (caller.isEnded) return undefined;
    if (answer.status === 200) return answer.body as unknown as UpdatePage;
    if (!isPassing(answer)) throw refusedBy(answer);
    await caller.backOff(answer, failures, 'updates are asked for again');
  }
}

function refusedBy(answer: Answer): UpdatesRefused {
  const { code, msg } = problemOf(answer);
  return new UpdatesRefused(code, msg);
}
