import type { ListedNotification, NotificationRecord } from '../../redis/notifications/notifications.js';

/** Shows a notification to its publisher, without its attempts. */
export function presentNotification(n: ListedNotification): Record<string, unknown> {
  return {
    notification_id: n.notificationId,
    platform_id: n.platformId,
    event_id: n.eventId,
    state: n.state,
    priority: n.priority,
    accepted_at: presentTime(n.acceptedAt),
    ended_at: n.endedAt && presentTime(n.endedAt),
    next_attempt_at: n.nextAttemptAt && presentTime(n.nextAttemptAt),
    waiting_reason: n.waitingReason,
    [n.state === 'not_needed' ? 'made_unnecessary_by' : 'superseded_by']: n.by,
    reason: n.reason,
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
