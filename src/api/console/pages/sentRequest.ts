import { notificationRequest } from '../../../outgoing/notification.js';
import type { NotificationRecord } from '../../../redis/notifications/notifications.js';
import type { AttemptRecord } from '../../../redis/owed/standing.js';

/** Returns the request of an attempt as HTTP text: its record has the time and the URL, the rest is derived. */
export function sentRequest(n: NotificationRecord, attempt: AttemptRecord): string {
  const { headers, body } = notificationRequest(n, [], attempt.at);
  const url = new URL(attempt.url);
  const lines = {
    host: url.host,
    ...headers,
    'webhook-signature': 'v1,… (HMAC-SHA256 with the signing secret of that moment)',
    'content-length': String(Buffer.byteLength(body)),
  };
  return [
    `POST ${attempt.url}`,
    ...Object.entries(lines).map(([name, value]) => `${name}: ${value}`),
    '',
    body,
  ].join('\n');
}
