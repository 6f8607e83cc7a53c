import type { NotificationRecord } from '../store/notifications.js';
import { moment } from './moment.js';

/** A notification as programs read it; the words are those of `GET /notifications/{id}`. */
export function presentNotification(n: NotificationRecord) {
  return {
    notification_id: n.notificationId,
    client_token: n.clientToken,
    platform_id: n.platformId,
    event_id: n.eventId,
    state: n.state,
    priority: n.priority,
    accepted_at: moment(n.acceptedAt) ?? null,
    ...(n.endedAt !== undefined && { ended_at: moment(n.endedAt) }),
    ...(n.nextAttemptAt !== undefined && { next_attempt_at: moment(n.nextAttemptAt) }),
    ...(n.by !== undefined && {
      [n.state === 'superseded' ? 'superseded_by' : 'not_needed_because_of']: n.by,
    }),
    ...(n.reason !== undefined && { reason: n.reason }),
    attempts: n.attempts.map(({ at, ...attempt }) => ({ at: moment(at), ...attempt })),
  };
}
