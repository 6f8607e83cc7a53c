import { AccessToken, type Credentials } from './accessToken.js';
import { type Answer, Caller, isPassing, problemOf } from './call.js';
import { type Update, type UpdatePage, UpdatesRefused } from './types.js';

export { type Update, type UpdatePage, UpdatesRefused };

export interface UpdatesOptions extends Credentials {
  /** Where the service is, such as `https://notifications.example.com`. */
  url: string;
  /** What a call may take; 15,000. */
  timeoutMs?: number;
  /** In the place of Node's own, for a proxy or tracing. */
  fetch?: typeof fetch;
}

export interface UpdatesAsked {
  /** The client whose updates are read. */
  clientToken: string;
  /** The `next_cursor` that was kept last; absent: from the oldest update that the service keeps. */
  after?: string | undefined;
  /** How many updates a page has at most, 1 to 200; 200. */
  limit?: number;
  /** How long to wait once nothing is new; 10,000. */
  pollEveryMs?: number;
  /** Ends the iteration. */
  signal?: AbortSignal;
}

const maxBackoffMs = 10_000;

/** Reads the updates of an account's clients: for who would rather ask than be told. */
export class UpdatesClient {
  readonly #url: string;
  readonly #options: UpdatesOptions;

  constructor(options: UpdatesOptions) {
    this.#url = options.url.replace(/\/+$/, '');
    this.#options = options;
  }

  /**
   * Yields each page that has updates, for as long as it is iterated over. Keep a page's `next_cursor` once you have dealt
   * with its updates: an iteration that begins with it skips nothing.
   * @throws UpdatesRefused where asking again cannot help, as with the code `cursor_expired`
   */
  async *updates(asked: UpdatesAsked): AsyncGenerator<UpdatePage, void, void> {
    const { fetch: given = fetch, timeoutMs = 15_000 } = this.#options;
    const caller = new Caller(given, timeoutMs);
    const token = new AccessToken(this.#url, this.#options, caller, 'push_notifications');
    const { clientToken, limit = 200, pollEveryMs = 10_000, signal } = asked;
    const end = () => caller.end();
    signal?.addEventListener('abort', end, { once: true });
    if (signal?.aborted) end();
    try {
      for (let after = asked.after; ; ) {
        const query = { client_token: clientToken, limit: String(limit), ...(after && { after }) };
        const page = await nextPage(caller, token, `${this.#url}/updates?${new URLSearchParams(query)}`);
        if (page === undefined) return;
        after = page.next_cursor;
        if (page.updates.length > 0) yield page;
        else await caller.wait(pollEveryMs);
        if (caller.isEnded) return;
      }
    } finally {
      signal?.removeEventListener('abort', end);
      end();
    }
  }
}

/** Asks until there is an answer; undefined where the caller was ended first. @throws UpdatesRefused */
async function nextPage(caller: Caller, token: AccessToken, url: string): Promise<UpdatePage | undefined> {
  for (let failures = 0; ; failures++) {
    const answer = await token.call((authorization) =>
      caller.call('GET', url, { headers: { authorization } }),
    );
    if (caller.isEnded) return undefined;
    if (answer.status === 200) return answer.body as UpdatePage;
    if (!isPassing(answer)) throw refusedBy(answer);
    // At least so long, and a little more, so that not all who were refused come back at once.
    const waitMs = answer.retryAfterMs ?? Math.min(100 * 2 ** failures, maxBackoffMs);
    await caller.wait(waitMs * (1 + Math.random() / 4));
  }
}

function refusedBy(answer: Answer): UpdatesRefused {
  const { code, msg } = problemOf(answer);
  return new UpdatesRefused(code, msg);
}
