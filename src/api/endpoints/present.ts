import type { NotificationRecord } from '../../redis/notifications/notifications.js';

/** Shows a notification to its publisher, without its attempts. */
export function presentNotification(n: NotificationRecord): Record<string, unknown> {
  return {
    notification_id: n.notificationId,
    platform_id: n.platformId,
    event_id: n.eventId,
    state: n.state,
    priority: n.priority,
    accepted_at: presentTime(n.acceptedAt),
    ...(n.endedAt !== undefined && { ended_at: presentTime(n.endedAt) }),
    ...(n.nextAttemptAt !== undefined && { next_attempt_at: presentTime(n.nextAttemptAt) }),
    ...(n.waitingReason !== undefined && { waiting_reason: n.waitingReason }),
    ...(n.by !== undefined && { [n.state === 'not_needed' ? 'made_unnecessary_by' : 'superseded_by']: n.by }),
    ...(n.reason !== undefined && { reason: n.reason }),
  };
}

/** Shows a notification with every attempt that is kept, oldest first. */
export function presentWithAttempts(n: NotificationRecord): Record<string, unknown> {
  return {
    ...presentNotification(n),
    attempts: n.attempts.map((attempt) => ({ ...attempt, at: presentTime(attempt.at) })),
  };
}

/** Shows a time as ISO 8601 in UTC. */
export const presentTime = (ms: number): string => new Date(ms).toISOString();

export const presentOptionalTime = (ms: number | undefined): string | null =>
  ms === undefined ? null : presentTime(ms);
