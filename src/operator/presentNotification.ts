import { presentWithAttempts } from '../api/presentNotification.js';
import type { NotificationRecord } from '../store/notifications.js';

/** A notification as `GET /notifications/{id}` has it, and whose it is. */
export function presentNotification(n: NotificationRecord) {
  const { notification_id, ...rest } = presentWithAttempts(n);
  return { notification_id, client_token: n.clientToken, ...rest };
}
