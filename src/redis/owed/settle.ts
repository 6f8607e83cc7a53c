/** The verdict of an attempt and the changes that it made: scripts/shared/settle.lua settles it. */

/** Times of attempts after a failed one, and of the probes of a failing endpoint. */
export interface DeliverySchedule {
  retryScheduleMs: readonly number[];
  retryWindowMs: number;
  failingAfter: number;
  probeScheduleMs: readonly number[];
  suspendAfterMs: number;
}

/** The fewest failed attempts since its last success after which an endpoint is suspended (contract, section 3). */
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

/** The end of an attempt. */
export interface Verdict {
  platformId: string;
  notificationId: string;
  taken: { token: string; generation: number; epoch: number };
  ok: boolean;
  retryAfterMs?: number;
  attempt: AttemptRecord;
  redeliver?: boolean;
}

/** An endpoint's state without a pause that may hide it. */
export type EndpointHealth = 'active' | 'failing' | 'suspended';

export interface Settled {
  outcome: 'delivered' | 'retry' | 'failed' | 'gone';
  /** Time until the next attempt of this notification, if it is still owed. */
  inMs: number;
  /** Failed attempts of this notification so far. */
  failures: number;
  /** The change of the endpoint's state by this verdict. */
  change?: { from: EndpointHealth; to: EndpointHealth; why: string };
  /** The newer notification of the asset, which waited for the end of this attempt. */
  next?: string;
  /** When its event was accepted, ms; absent if its record is gone. */
  acceptedAt?: number;
  /** No attempt of this notification has ended before. */
  isFirst: boolean;
  /** Of the record before this verdict; absent while it is owed, and where its record is gone. */
  state?: string;
}

/** Returns a verdict in the form that `settle_attempt` expects. */
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

/** Returns the schedule in the form that `settle_attempt` expects. */
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
  string | null,
  number | null,
  string | null,
];

/** Reads an answer of `settle_attempt`. */
export function settledOf(answer: unknown): Settled {
  const [outcome, inMs, failures, to, from, why, next, acceptedAt, isFirst, state] = answer as Answer;
  return {
    outcome,
    inMs,
    failures,
    ...(to === '' ? {} : { change: { from, to, why } }),
    ...(next === null || next === '!' ? {} : { next }),
    ...(acceptedAt === null ? {} : { acceptedAt: Number(acceptedAt) }),
    isFirst: isFirst === 1,
    ...(state === null ? {} : { state }),
  };
}
