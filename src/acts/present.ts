import type { AssetExplanation } from '../redis/notifications/decisions.js';
import type { ListedNotification, NotificationRecord } from '../redis/notifications/notifications.js';
import type { Endpoint } from '../redis/records/endpoint.js';
import type { Registration } from '../redis/records/registrations.js';

export function presentNotification(n: ListedNotification): Record<string, unknown> {
  return {
    notification_id: n.notificationId,
    platform_id: n.platformId,
    event_id: n.eventId || undefined,
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

export function presentWithAttempts(n: NotificationRecord): Record<string, unknown> {
  return {
    ...presentNotification(n),
    attempts: n.attempts.map((attempt) => ({ ...attempt, at: presentTime(attempt.at) })),
  };
}

/** Shows what is known of an asset, without its last notification. */
export const presentAsset = ({ platformId, knownSegments, lastEvent }: AssetExplanation) => ({
  platform_id: platformId,
  known_segments: knownSegments,
  last_event: lastEvent && {
    event_id: lastEvent.eventId,
    at: presentTime(lastEvent.at),
    decision: lastEvent.decision,
  },
});

export const presentReplay = ({ replay }: Endpoint) =>
  replay === undefined
    ? null
    : {
        since: presentTime(replay.since),
        until: presentTime(replay.untilMs),
        running: replay.runs,
        reached: presentTime(Math.min(replay.at, replay.untilMs)),
        owed_again: replay.count,
        ended_at: presentTime(replay.endedAt),
      };

export function presentRegistration(registration: Registration, endpoint: Endpoint) {
  return {
    url: registration.url,
    state: endpoint.state,
    state_since: presentTime(endpoint.lastChange?.at),
    state_reason: endpoint.lastChange?.why ?? null,
    ...presentReach(registration, endpoint),
    owed: endpoint.owed,
    replay: presentReplay(endpoint),
    quiet_seconds: endpoint.quietSeconds,
    last_success_at: presentTime(endpoint.lastSuccessAt),
    last_failure_at: presentTime(endpoint.lastFailureAt),
    last_error: endpoint.lastError ?? null,
    last_detail: endpoint.lastDetail ?? null,
    next_attempt_at: presentTime(endpoint.nextAttemptAt),
  };
}

/** Says until when all has arrived (`deliveredUntil`), and what is not counted in that. */
export const presentReach = (registration: Registration | undefined, endpoint: Endpoint) => ({
  delivered_until: presentTime(endpoint.deliveredUntil),
  owed_since: presentTime(endpoint.owedSince),
  failed: endpoint.failed,
  cancelled: endpoint.cancelled,
  registered_at: presentTime(registration?.registeredAtMs),
});

/** Shows a time of us as ISO 8601 in UTC, to the ms unless two would be equal. */
export const presentMicroseconds = (us: number): string =>
  presentTime(Math.floor(us / 1000)).replace(
    'Z',
    us % 1000 === 0 ? 'Z' : `${String(us % 1000).padStart(3, '0')}Z`,
  );

/** Shows a time as ISO 8601 in UTC; null if there is none. */
export const presentTime = <Ms extends number | undefined>(ms: Ms) =>
  (ms === undefined ? null : new Date(ms).toISOString()) as Ms extends number ? string : string | null;
