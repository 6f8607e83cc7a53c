/** A notification as a receiver gets it: headers, body, signature, and the client's own headers. */
import { createHmac } from 'node:crypto';
import { product } from '../product.js';
import type { Headers } from './hidden.js';

export const userAgent = `${product.name}/${product.version}`;

/**
 * Makes headers and body of one attempt, in the order of the contract.
 * @param n.event `asset-update` unless it is the publisher's test
 * @param n.body the body of a notice, in place of a body with event and asset
 * @param secrets as for {@link sign}
 * @param nowMs the time of this attempt
 * @param own the client's own headers, names in lower case; never one of the service's
 */
export function notificationRequest(
  n: {
    notificationId: string;
    clientToken: string;
    platformId: string;
    event?: 'asset-update' | 'test';
    body?: string;
    updatedAt?: string;
    attempt?: number;
  },
  secrets: readonly string[],
  nowMs: number,
  own: Headers = {},
): { headers: Record<string, string>; body: string } {
  const timestampSeconds = Math.floor(nowMs / 1000);
  const { notificationId: id, event = 'asset-update', platformId, updatedAt, attempt = 1 } = n;
  const body = n.body ?? `{"event":"${event}","platform_id":${JSON.stringify(platformId)}}`;
  return {
    headers: {
      'content-type': 'application/json',
      // Firewalls with common rules refuse a request without it.
      accept: '*/*',
      'user-agent': userAgent,
      'webhook-id': id,
      'webhook-timestamp': String(timestampSeconds),
      'webhook-signature': sign(secrets, id, timestampSeconds, body),
      'webhook-client-token': n.clientToken,
      // Neither is signed: a receiver may skip work by them, no more.
      'webhook-updated-at': updatedAt ?? String(nowMs),
      'webhook-attempt': String(attempt),
      ...own,
    },
    body,
  };
}

/**
 * Signs symmetrically, by Standard Webhooks 1.0.0
 * (https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md).
 * @param secrets the current secret first, then previous ones that are still valid; each signs
 * @param id `webhook-id`
 * @param timestampSeconds `webhook-timestamp`
 * @returns the value of `webhook-signature`: `v1,<base64>` for each secret, separated by spaces
 */
export function sign(secrets: readonly string[], id: string, timestampSeconds: number, body: string): string {
  const content = `${id}.${timestampSeconds}.${body}`;
  return secrets
    .map((secret) => `v1,${createHmac('sha256', decodeKey(secret)).update(content, 'utf8').digest('base64')}`)
    .join(' ');
}

function decodeKey(secret: string): Buffer {
  const key = Buffer.from(secret.replace(/^whsec_/, ''), 'base64');
  if (key.length === 0) throw new Error('a signing secret is empty');
  return key;
}
