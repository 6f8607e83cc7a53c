/** Follows the updates of a client (`GET /updates`): shows what would be notified on a machine that nobody can reach. */
import { setTimeout as sleep } from 'node:timers/promises';

/** @typedef {{ platform_id: string, notification_id?: string, updated_at: string }} Update without an id none was made: there was no URL */

const waitSeconds = 20;
const againSeconds = 2;

/** @typedef {{ status: number, body: any, retryAfter?: string | null | undefined, date?: string | null | undefined }} Answer */

/** @typedef {{ url: string, token: string, clientToken: string }} Access to the updates of a client: the service's address, and an access token */

/**
 * Calls the service for a client. Status 0: there was no answer; `body.msg` says why a call failed.
 * @param {Access} access
 * @param {string} path
 * @param {Record<string, string>} [query]
 * @returns {Promise<Answer>}
 */
export async function ask({ url, token, clientToken }, path, query = {}) {
  const asked = `${url.replace(/\/+$/, '')}/${path}?${new URLSearchParams({ client_token: clientToken, ...query })}`;
  const headers = { authorization: `Bearer ${token}` };
  const signal = AbortSignal.timeout((waitSeconds + 15) * 1000);
  try {
    const response = await fetch(asked, { headers, signal, redirect: 'manual' });
    const text = await response.text();
    const body = { msg: 'not an answer of the service', ...(text.startsWith('{') && JSON.parse(text)) };
    const [retryAfter, date] = ['retry-after', 'date'].map((name) => response.headers.get(name));
    return { status: response.status, body, retryAfter, date };
  } catch (err) {
    return { status: 0, body: { msg: whyUnanswered(err) } };
  }
}

/**
 * @param {any} err of `fetch`, which hides the reason in the innermost cause; of several addresses it has only the code
 * @returns {string}
 */
export const whyUnanswered = ({ message, code, cause }) =>
  cause instanceof Error ? whyUnanswered(cause) : message || code;

/**
 * Shows each update from now on, one after the other, until the service refuses a call.
 * @param {Access} access
 * @param {(update: Update) => unknown} tell
 * @param {(words: string) => void} say
 * @returns {Promise<string>} the refusal
 */
export async function followUpdates(access, tell, say) {
  let [cursor, isNow] = ['', false];
  for (;;) {
    // The service takes its own time where this clock is ahead; where it is behind, earlier ones come first.
    const place = cursor ? { cursor } : { since: new Date().toISOString() };
    const query = { limit: '1000', wait: isNow ? String(waitSeconds) : '0', ...place };
    const answer = await ask(access, 'updates', query);
    const { status, body } = answer;
    if (status === 200 && Array.isArray(body.updates)) {
      cursor = body.next_cursor;
      if (isNow) for (const update of body.updates) await tell(update);
      else if (!body.has_more) {
        isNow = true;
        say(`Follows the updates of ${access.clientToken} from now on.`);
      }
      continue;
    }
    const why = await refusalOf(answer, say);
    if (why !== undefined) return why;
  }
}

/**
 * Waits before a call is repeated, or returns the refusal if asking again cannot help.
 * @param {Answer} answer
 * @param {(words: string) => void} say
 * @returns {Promise<string | undefined>}
 */
async function refusalOf({ status, body, retryAfter, date }, say) {
  const why = status === 0 ? body.msg : `${status}: ${body.msg}`;
  if (status >= 300 && ![408, 429].includes(status) && status < 500) return why;
  // A proxy may send a date instead of seconds. It counts from the answer's own, because this clock may be wrong.
  const now = Date.parse(String(date)) || Date.now();
  const askedSeconds = Number(retryAfter) || Math.ceil((Date.parse(String(retryAfter)) - now) / 1000);
  const seconds = Math.min(Math.max(againSeconds, askedSeconds || 0), 86_400);
  say(`No answer (${why}): asking again in ${seconds} s.`);
  await sleep(seconds * 1000);
}

/** So much later than an update its notification stands in a table that is read now, if the update was delivered. */
const settledMs = 300_000;

/**
 * Compares what a receiver has stored with all updates of a client.
 * @param {Access} access
 * @param {string} stored lines of `platform_id`, a tab and `webhook-id`
 * @param {string | undefined} since RFC 3339
 * @param {(words: string) => void} say
 * @returns {Promise<{ missing: Update[], compared: number, until: string, nothing_compared: boolean } | string>} or the refusal
 */
export async function reconcile(access, stored, since, say) {
  const held = new Set(stored.split(/\r?\n/));
  /** @type {Map<string, Update>} */
  const newest = new Map();
  let until = Date.now() - settledMs;
  /** @type {Record<string, string>} */
  let more = since === undefined ? {} : { since };
  for (;;) {
    const answer = await ask(access, 'updates', { limit: '1000', ...more });
    if (answer.status !== 200 || !Array.isArray(answer.body.updates)) {
      const why = await refusalOf(answer, say);
      if (why !== undefined) return why;
      continue;
    }
    const { updates, has_more, next_cursor, delivered_until, complete_since } = answer.body;
    if (more.cursor === undefined) {
      until = Math.min(until, Date.parse(delivered_until) || until);
      if (complete_since) say(`The service lists the updates since ${complete_since}.`);
    }
    for (const update of updates) {
      newest.delete(update.platform_id);
      newest.set(update.platform_id, update);
    }
    more = { cursor: next_cursor };
    if (has_more) continue;
    const from = since === undefined ? 0 : Date.parse(since);
    const compared = [...newest.values()].filter(
      ({ updated_at }) => Date.parse(updated_at) >= from && Date.parse(updated_at) <= until,
    );
    const missing = compared.filter((one) => !held.has(`${one.platform_id}\t${one.notification_id}`));
    const reach = { until: new Date(until).toISOString(), nothing_compared: until < from };
    return { missing, compared: compared.length, ...reach };
  }
}
