/** Whether a notification is one of the service's: what a receiver of your own has to check, with the same library. */
import { Webhook, WebhookVerificationError } from 'standardwebhooks';

const names = ['webhook-id', 'webhook-timestamp', 'webhook-signature'];
/** By Standard Webhooks: the library's own, which it does not tell. */
const allowedSeconds = 300;

/**
 * @param {readonly string[]} secrets any of them may have made the signature
 * @returns {(body: Buffer, headers: import('node:http').IncomingHttpHeaders) => string | undefined} why a notification is
 *   not to be trusted; undefined where it is
 * @throws {TypeError} naming by its number, and never showing, what is no signing secret
 */
export function createVerifier(secrets) {
  const webhooks = secrets.map(webhookOf);
  return (body, headers) => {
    const problems = webhooks.map((webhook) => problemOf(webhook, body, headers));
    return problems.includes(undefined) ? undefined : inWords(problems[0] ?? '', headers);
  };
}

/**
 * @param {string} secret
 * @param {number} index
 */
function webhookOf(secret, index) {
  try {
    return new Webhook(secret);
  } catch {
    throw new TypeError(`Secret ${index + 1} is none: it is whsec_ and base64.`);
  }
}

/**
 * @param {Webhook} webhook
 * @param {Buffer} body
 * @param {import('node:http').IncomingHttpHeaders} headers
 */
function problemOf(webhook, body, headers) {
  try {
    webhook.verify(body, /** @type {Record<string, string>} */ (headers), { jsonParse: false });
    return undefined;
  } catch (err) {
    if (!(err instanceof WebhookVerificationError)) throw err;
    return err.message;
  }
}

/**
 * @param {string} problem the library's words
 * @param {import('node:http').IncomingHttpHeaders} headers
 */
function inWords(problem, headers) {
  const missing = names.filter((name) => !headers[name]);
  if (missing.length > 0) return `without ${missing.join(', ')}`;
  const age = ageSeconds(headers);
  if (age === undefined) return 'webhook-timestamp is no number';
  const allowed = `${allowedSeconds} s are allowed; is the clock of this machine right?`;
  if (age > allowedSeconds) return `webhook-timestamp is ${age} s old, ${allowed}`;
  if (age < -allowedSeconds) return `webhook-timestamp is ${-age} s ahead, ${allowed}`;
  if (!/matching/.test(problem)) return problem;
  return 'no signature fits: made with another secret, or the body was changed on its way';
}

/**
 * The age of webhook-timestamp, whole seconds, negative where it lies ahead; undefined where there is none.
 * @param {import('node:http').IncomingHttpHeaders} headers
 */
export function ageSeconds(headers) {
  const timestamp = Number.parseInt(String(headers['webhook-timestamp']), 10);
  return Number.isNaN(timestamp) ? undefined : Math.floor(Date.now() / 1000) - timestamp;
}
