/** Posts notifications from this machine, signed with the client's secrets as the service signs them. */
import { createHash } from 'node:crypto';
import { Webhook } from 'standardwebhooks';
import { whyUnanswered } from './updates.mjs';

const atMostMs = 10_000;

/**
 * @typedef {object} Forwarded
 * @property {string} platform_id
 * @property {string} notification_id
 * @property {string} updated_at
 * @property {number | null} answered the status; null if there was no answer
 * @property {string} [why] there was none
 * @property {number} after_ms
 */

/**
 * @param {object} options
 * @param {string} options.to the URL of your own receiver
 * @param {string[]} options.secrets each signs
 * @param {string} options.clientToken
 * @returns {(update: import('./updates.mjs').Update) => Promise<Forwarded>}
 */
export function createForwarder({ to, secrets, clientToken }) {
  const webhooks = secrets.map((secret) => new Webhook(secret));
  return async (update) => {
    const { platform_id, notification_id: id = idOf(update) } = update;
    const body = JSON.stringify({ event: 'asset-update', platform_id });
    const now = new Date();
    const headers = {
      'content-type': 'application/json',
      accept: '*/*',
      'user-agent': 'asset-update-listen',
      'webhook-id': id,
      'webhook-timestamp': String(Math.floor(now.getTime() / 1000)),
      'webhook-signature': webhooks.map((one) => one.sign(id, now, body)).join(' '),
      'webhook-client-token': clientToken,
      'webhook-updated-at': String(Date.parse(update.updated_at)),
      'webhook-attempt': '1',
    };
    const began = performance.now();
    const signal = AbortSignal.timeout(atMostMs);
    const answer = await fetch(to, { method: 'POST', headers, body, signal, redirect: 'manual' }).then(
      async (response) => {
        await response.body?.cancel();
        return { answered: response.status };
      },
      (err) => ({ answered: null, why: whyUnanswered(err) }),
    );
    return { ...update, notification_id: id, ...answer, after_ms: Math.round(performance.now() - began) };
  };
}

/**
 * Makes an id for an update without a notification, the same each time.
 * @param {import('./updates.mjs').Update} update
 */
function idOf({ platform_id, updated_at }) {
  const digest = createHash('sha256')
    .update(JSON.stringify([platform_id, updated_at]))
    .digest('base64url');
  return `update_${digest.slice(0, 22)}`;
}
