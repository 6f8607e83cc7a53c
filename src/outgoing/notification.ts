import { product } from '../product.js';
import { sign } from './signature.js';

/** The header `user-agent`. */
export const userAgent = `${product.name}/${product.version}`;

/**
 * Makes headers and body of one attempt, in the order of the contract.
 * @param n.event `asset-update` unless it is the publisher's test
 * @param n.body that of a notice, in place of one with event and asset
 * @param secrets as for {@link sign}
 * @param nowMs the time of this attempt
 * @param own the client's own headers, names in lower case; never one of the service's (ownHeaders.ts)
 */
export function notificationRequest(
  n: {
    notificationId: string;
    clientToken: string;
    platformId: string;
    event?: 'asset-update' | 'test';
    body?: string;
  },
  secrets: readonly string[],
  nowMs: number,
  own: Readonly<Record<string, string>> = {},
): { headers: Record<string, string>; body: string } {
  const timestampSeconds = Math.floor(nowMs / 1000);
  const { notificationId: id, event = 'asset-update', platformId } = n;
  const body = n.body ?? `{"event":"${event}","platform_id":${JSON.stringify(platformId)}}`;
  return {
    headers: {
      'content-type': 'application/json',
      'user-agent': userAgent,
      'webhook-id': id,
      'webhook-timestamp': String(timestampSeconds),
      'webhook-signature': sign(secrets, id, timestampSeconds, body),
      'webhook-client-token': n.clientToken,
      ...own,
    },
    body,
  };
}
