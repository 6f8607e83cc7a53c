/** What an attempt's verdict changes: of its notification, of what is owed, of its endpoint's health. */

/** When a failed attempt is followed by another, and what a failing endpoint gets. */
export interface DeliverySchedule {
  retryScheduleMs: readonly number[];
  retryWindowMs: number;
  failingAfter: number;
  probeScheduleMs: readonly number[];
  suspendAfterMs: number;
}

/** An endpoint is suspended after at least so many failed attempts since its last success (contract, section 3). */
export const suspendMinimumAttempts = 20;

export interface AttemptRecord {
  at: number;
  url: string;
  milliseconds: number;
  status?: number;
  error?: string;
  remote_address?: string;
  response_excerpt?: string;
}

/** How an attempt ended. */
export interface Verdict {
  platformId: string;
  notificationId: string;
  taken: { token: string; generation: number; epoch: number };
  ok: boolean;
  retryAfterMs?: number;
  attempt: AttemptRecord;
  redeliver?: boolean;
}

/** An endpoint's state without the pause that may lie over it. */
export type EndpointHealth = 'active' | 'failing' | 'suspended';

export interface Settled {
  outcome: 'delivered' | 'retry' | 'failed' | 'gone';
  /** Until the next attempt of this notification, where it is still owed. */
  inMs: number;
  /** Failed attempts of this notification so far. */
  failures: number;
  /** What this verdict has changed of the endpoint's health. */
  change?: { from: EndpointHealth; to: EndpointHealth; why: string };
  /** The newer notification of the asset, which has waited for this attempt's end. */
  next?: string;
}

/** What `settle_attempt` takes as `v`. */
export function settleArguments(verdict: Verdict): unknown[] {
  return [
    verdict.platformId,
    verdict.notificationId,
    verdict.taken.token,
    verdict.taken.generation,
    verdict.taken.epoch,
    verdict.ok,
    verdict.attempt.status ?? '',
    verdict.attempt.error ?? '',
    verdict.retryAfterMs ?? 0,
    JSON.stringify(verdict.attempt),
    verdict.ok ? 0 : Math.random(),
    verdict.redeliver === true,
  ];
}

/** The schedule as `settle_attempt` reads it. */
export function scheduleArguments(schedule: DeliverySchedule): object {
  return {
    retry: schedule.retryScheduleMs,
    probe: schedule.probeScheduleMs,
    window: schedule.retryWindowMs,
    failing_after: schedule.failingAfter,
    suspend_after: schedule.suspendAfterMs,
    suspend_attempts: suspendMinimumAttempts,
  };
}

type Answer = [
  Settled['outcome'],
  number,
  number,
  EndpointHealth | '',
  EndpointHealth,
  string,
  string | null,
];

/** What `settle_attempt` answered. */
export function settledOf(answer: unknown): Settled {
  const [outcome, inMs, failures, to, from, why, next] = answer as Answer;
  return {
    outcome,
    inMs,
    failures,
    ...(to === '' ? {} : { change: { from, to, why } }),
    ...(next === null || next === '!' ? {} : { next }),
  };
}
