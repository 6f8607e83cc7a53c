/** Follows the updates of a client (`GET /updates`): shows what would be notified on a machine that nobody can reach. */
import { setTimeout as sleep } from 'node:timers/promises';

/** @typedef {{ platform_id: string, notification_id: string, updated_at: string }} Update */

const waitSeconds = 20;
const againSeconds = 2;

/** @typedef {{ url: string, token: string, clientToken: string }} Access to the updates of a client: the service's address, and an access token */

/**
 * Calls the service for a client. Status 0: there was no answer; `body.msg` says why a call failed.
 * @param {Access} access
 * @param {string} path
 * @param {Record<string, string>} [query]
 * @returns {Promise<{ status: number, body: any, retryAfter?: string | null }>}
 */
export async function ask({ url, token, clientToken }, path, query = {}) {
  const asked = `${url.replace(/\/+$/, '')}/${path}?${new URLSearchParams({ client_token: clientToken, ...query })}`;
  const headers = { authorization: `Bearer ${token}` };
  const signal = AbortSignal.timeout((waitSeconds + 15) * 1000);
  try {
    const response = await fetch(asked, { headers, signal, redirect: 'manual' });
    const text = await response.text();
    const body = { msg: 'not an answer of the service', ...(text.startsWith('{') && JSON.parse(text)) };
    return { status: response.status, body, retryAfter: response.headers.get('retry-after') };
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
  let [cursor, earlier, isNow] = ['', 0, false];
  for (;;) {
    const query = { limit: '1000', wait: isNow ? String(waitSeconds) : '0', ...(cursor && { cursor }) };
    const { status, body, retryAfter } = await ask(access, 'updates', query);
    if (status === 200 && Array.isArray(body.updates)) {
      cursor = body.next_cursor;
      if (isNow) for (const update of body.updates) await tell(update);
      else earlier += body.updates.length;
      if (!isNow && !body.has_more) {
        isNow = true;
        say(`Follows the updates of ${access.clientToken}; ${earlier} earlier ones are not shown.`);
      }
      continue;
    }
    const why = status === 0 ? body.msg : `${status}: ${body.msg}`;
    if (status >= 300 && ![408, 429].includes(status) && status < 500) return why;
    // A proxy may send a date instead of seconds.
    const askedSeconds =
      Number(retryAfter) || Math.ceil((Date.parse(String(retryAfter)) - Date.now()) / 1000);
    const seconds = Math.min(Math.max(againSeconds, askedSeconds || 0), 86_400);
    say(`No answer (${why}): asking again in ${seconds} s.`);
    await sleep(seconds * 1000);
  }
}
