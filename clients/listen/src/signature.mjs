/** Checks that a notification comes from the service, as your own receiver must, with the same library. */
import { Webhook, WebhookVerificationError } from 'standardwebhooks';

const names = ['webhook-id', 'webhook-timestamp', 'webhook-signature'];
/** The library's tolerance, which it does not export. */
const allowedSeconds = 300;

/**
 * @param {readonly string[]} secrets the signature may be from any of them
 * @returns {(body: Buffer, headers: import('node:http').IncomingHttpHeaders) => string | undefined} why a notification is
 *   not valid; undefined if it is
 * @throws {TypeError} that names an invalid secret by its number and never shows it
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
  // The library accepts any key except an empty text; with an empty one anybody could sign.
  if (Buffer.from(secret.replace('whsec_', ''), 'base64').length >= 24) {
    try {
      return new Webhook(secret);
    } catch {}
  }
  throw new TypeError(
    `Secret ${index + 1} is not valid: a signing secret is whsec_ followed by base64 of at least 24 bytes.`,
  );
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
 * @param {string} problem the library's message
 * @param {import('node:http').IncomingHttpHeaders} headers
 */
function inWords(problem, headers) {
  const missing = names.filter((name) => !headers[name]);
  if (missing.length > 0) return `missing: ${missing.join(', ')}`;
  const age = ageSeconds(headers);
  if (age === undefined) return 'webhook-timestamp is not a number';
  const allowed = `${allowedSeconds} s are allowed; is the clock of this machine right?`;
  if (age > allowedSeconds) return `webhook-timestamp is ${age} s old, ${allowed}`;
  if (age < -allowedSeconds) return `webhook-timestamp is ${-age} s ahead, ${allowed}`;
  if (!/matching/.test(problem)) return problem;
  return 'no signature matches: made with another secret, or the body was changed on the way';
}

/**
 * Returns the age of webhook-timestamp in whole seconds, negative if it is ahead; undefined if there is none.
 * @param {import('node:http').IncomingHttpHeaders} headers
 */
export function ageSeconds(headers) {
  const timestamp = Number.parseInt(String(headers['webhook-timestamp']), 10);
  return Number.isNaN(timestamp) ? undefined : Math.floor(Date.now() / 1000) - timestamp;
}
